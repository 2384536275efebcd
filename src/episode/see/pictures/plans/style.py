"""Colours and fonts of plans, on light and on dark ground. Nothing is said by colour alone: the words say it, too.

Rules begin with the class of our pictures, so that they leave the rest of a page alone. Colours are plain: what draws
SVG outside of browsers knows neither variables nor media queries.
"""

from __future__ import annotations

PICTURE, PAGE = "episode-plan", "episode-plan-page"
"""The class of an SVG, and of what stands around it in HTML."""

_SANS = "font-family: system-ui, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
_CODE = "font-family: ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"

_LIGHT = {
    "paper": "#ffffff", "ink": "#1b1f24", "soft": "#57606a", "line": "#8c959f", "faint": "#d0d7de", "fill": "#f6f8fa",
    "local": "#ddf4ff", "local line": "#0969da", "residual": "#fff8c5", "residual line": "#9a6700",
    "strong": "#1a7f37", "strong fill": "#dafbe1", "bar": "#8c959f", "no": "#cf222e",
}  # fmt: skip
_DARK = {
    "paper": "#0d1117", "ink": "#e6edf3", "soft": "#a6b0bb", "line": "#7d8590", "faint": "#30363d", "fill": "#161b22",
    "local": "#0c2d6b", "local line": "#79c0ff", "residual": "#4b2900", "residual line": "#e3b341",
    "strong": "#56d364", "strong fill": "#0f5323", "bar": "#6e7681", "no": "#ff7b72",
}  # fmt: skip

_SVG = """
.{root} text {{ {sans}; font-size: 13px; fill: {ink}; stroke: none }}
.{root} .code {{ {code}; font-size: 12.5px }}
.{root} .small {{ font-size: 11px; fill: {soft} }}
.{root} .number {{ font-size: 11px; fill: {soft} }}
.{root} .title {{ font-size: 16px; font-weight: 600 }}
.{root} .caption {{ font-size: 13px; font-weight: 600; fill: {soft} }}
.{root} .name {{ font-weight: 600 }}
.{root} .no {{ fill: {no} }}
.{root} .chosen {{ fill: {strong}; font-weight: 600 }}
.{root} .paper {{ fill: {paper}; stroke: {faint} }}
.{root} .rail {{ fill: none; stroke: {line}; stroke-width: 1.5 }}
.{root} .preferred {{ fill: none; stroke: {ink}; stroke-width: 2.5 }}
.{root} .head {{ fill: {ink}; stroke: none }}
.{root} .rule {{ stroke: {faint}; stroke-width: 1; fill: none }}
.{root} .any {{ fill: {fill}; stroke: {line}; stroke-width: 1.5 }}
.{root} .local {{ fill: {local}; stroke: {local line}; stroke-width: 1.5 }}
.{root} .residual {{ fill: {residual}; stroke: {residual line}; stroke-width: 1.5; stroke-dasharray: 5 3 }}
.{root} .frame {{ fill: none; stroke: {line}; stroke-width: 1; stroke-dasharray: 2 3 }}
.{root} .end {{ fill: {paper}; stroke: {ink}; stroke-width: 2 }}
.{root} .dot {{ fill: {ink}; stroke: none }}
.{root} .node {{ fill: {fill}; stroke: {line}; stroke-width: 1.5 }}
.{root} .accepting {{ fill: {strong fill}; stroke: {strong}; stroke-width: 1.5 }}
.{root} .bar {{ fill: {bar}; stroke: none }}
.{root} .strong {{ fill: {strong}; stroke: none }}
.{root} .one {{ fill: {local line}; stroke: none }}
.{root} .two {{ fill: {residual line}; stroke: none }}
.{root} .band {{ fill: {strong fill}; stroke: {strong}; stroke-width: 1; stroke-dasharray: 4 3 }}
"""

_PAGE = """
.{root} {{ {sans}; color: {ink}; background: {paper}; line-height: 1.45 }}
.{root} pre {{ {code}; color: {ink}; background: {fill}; border: 1px solid {faint}; border-radius: 6px;
  padding: .8em; overflow: auto }}
.{root} table {{ border-collapse: collapse; margin: 1em 0; font-size: 90% }}
.{root} caption {{ text-align: left; font-weight: 600; padding: .2em 0 }}
.{root} th {{ text-align: left; border-bottom: 2px solid {line}; padding: .3em .8em .3em 0; background: none;
  color: {ink} }}
.{root} td {{ border-bottom: 1px solid {faint}; padding: .3em .8em .3em 0; vertical-align: top; text-align: left;
  background: none; color: {ink} }}
.{root} td.code {{ {code} }}
.{root} td:nth-child(2) {{ min-width: 4em }}
.{root} td.number {{ text-align: right; font-variant-numeric: tabular-nums }}
.{root} tr.strong td {{ font-weight: 600; color: {strong} }}
.{root} .cost {{ display: inline-block; height: .8em; min-width: 1px; background: {bar}; margin-right: .5em }}
.{root} tr.strong .cost {{ background: {strong} }}
.{root} h1, .{root} h2, .{root} h3 {{ font-size: 1.25em; margin: 1.2em 0 .4em }}
.{root} figure {{ margin: 1em 0; overflow-x: auto }}
.{root} figcaption {{ font-weight: 600; color: {soft} }}
.{root} dl {{ display: grid; grid-template-columns: max-content auto; gap: .2em 1em; margin: 1em 0 }}
.{root} dt {{ font-weight: 600 }}
.{root} dd {{ margin: 0 }}
.{root} svg {{ max-width: 100%; height: auto }}
"""


def _rules(sheet: str, root: str) -> str:
    fonts = {"root": root, "sans": _SANS, "code": _CODE}
    light, dark = (sheet.format(**fonts, **colours).strip() for colours in (_LIGHT, _DARK))
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


SVG_RULES, PAGE_RULES = _rules(_SVG, PICTURE), _rules(_PAGE, PAGE)
