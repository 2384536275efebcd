"""`make docs`: builds the documentation site into build/site, from the pages as they are in the repository.

The site's source is a copy of the pages in the layout of the repository, so a link that works there works here. The
page of the Python API exists only in the site: its text is in the docstrings. Every warning is an error.
"""

from __future__ import annotations

import logging
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "build" / "site-source"
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE")
FOLDERS = {
    "docs": ("*.md", "dev/**/*.md", "images/*.svg", "images/*.png", "images/plots/*.svg"),
    "bench": ("README.md", "results/*"),
    "examples": (
        "*.py",
        "*.md",
        "notebooks/*.ipynb",
        "dbt/*.md",
        "dbt/*.py",
        "pipelines/*.md",
        "dbt/models/*.sql",
        "pipelines/transformations/*.py",
    ),
}
SECTIONS = {
    "Queries": ("sql", "match", "query", "Query", "Events", "Options", "explain", "expand"),
    "Looking at matches": ("plot", "why_not", "report"),
    "Many rules": ("match_all",),
    "Without Spark": ("sql_local", "match_local", "match_all_local"),
    "Live queries": ("start", "start_rules"),
    "Declared streams": ("streams",),
    "Your own aggregates": ("aggregate",),
}
"""The functions of the API page, by subject; errors and what is in no section come last."""


def main() -> None:
    logging.basicConfig(level=logging.WARNING, format="docs: %(message)s")
    stage()
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    sys.path.insert(0, str(Path(__file__).parent))
    config = load_config(str(Path(__file__).with_name("mkdocs.yml")), strict=True)
    config.mdx_configs["toc"]["slugify"] = anchor_of
    config.plugins.on_startup(command="build", dirty=False)
    try:
        build(config)
    finally:
        config.plugins.on_shutdown()
    check_hosts(Path(config.site_dir))
    print(f"written: {Path(config.site_dir).relative_to(ROOT)}/index.html")  # noqa: T201


def stage() -> None:
    """Copy the pages to where the site is built from, and add the page of the API."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    SOURCE.mkdir(parents=True)
    for name in PAGES:
        shutil.copy(ROOT / name, SOURCE / name)
    for folder, patterns in FOLDERS.items():
        for pattern in patterns:
            for file in sorted((ROOT / folder).glob(pattern)):
                place = SOURCE / file.relative_to(ROOT)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, place)
    (SOURCE / "docs" / "api.md").write_text(api_page(), encoding="utf-8")


def api_page() -> str:
    """A page that names everything `import episode` offers; mkdocstrings puts the docstrings there."""
    offered = re.findall(r'^    "(\w+)",$', (ROOT / "src/episode/__init__.py").read_text(encoding="utf-8"), re.M)
    known = {name for names in SECTIONS.values() for name in names}
    errors = [name for name in offered if name.startswith("Episode")]
    others = [name for name in offered if name not in known and name not in errors and not name.startswith("_")]
    lines = ["# Python API", "", "What `import episode` offers. The pages of reference explain the languages.", ""]
    for title, names in {**SECTIONS, "Others": others, "Errors": errors}.items():
        lines += [f"# {title}", "", *(f"::: episode.{name}\n" for name in names if name in offered)]
    return "\n".join(lines)


def check_hosts(site: Path) -> None:
    """Fails where a page would load a script, a style, a font or a picture from another host."""
    loading = re.compile(r"""(?:\bsrc=|<link[^>]*\bhref=|url\(|@import )["']?(https?://[^"')\s]+)""")
    for page in (*site.rglob("*.html"), *site.rglob("*.css")):
        found = [host for host in loading.findall(page.read_text(encoding="utf-8")) if "www.w3.org" not in host]
        if found:
            raise SystemExit(f"docs: {page.relative_to(site)} loads {found[0]}")


def anchor_of(title: str, separator: str) -> str:
    """The anchor of a heading as repository hosts make it, so that links with anchors work in both views."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", separator)


if __name__ == "__main__":
    main()
