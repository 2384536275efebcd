"""Phrases and names that read like a translation, found in the docstrings, comments and names of src (`make lint`).

Each pattern has the wording to use instead; correct uses are excluded in the pattern. Functions are named by verbs
or nouns, never by bare participles; docstrings begin with a verb or with a noun that names the thing. Arguments are the
folders and files to read.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "episode"

PHRASES = {
    r"where (?:there (?:is|are)|it is|they are|that is|none is|one is|needed|possible)": "if …",
    r"says?": "sets, explains, declares; see …",
    r"(?<!there )(?:is|are) no (?!longer|more|less|fewer|other|(?:lat|earli|great|larg|small|wid)er)\w+": "not a",
    r"(?<!there )(?:is|are) none": "is not one, there are none of",
    r"stands? (?!for\b)\w+": "is, appears",
    r"go(?:es|ing)? on": "continues, resumes",
    r"(?:comes?|came|is|are|hands?|handed|gives?) out": "is returned, is emitted",
    r"of (?:its|their|one's|your|his) own": "its own",
    r"so (?:many|often|few|much|long) (?!as\b|that\b)\w+": "N, up to N",
    r"as (?:many|often) as": "up to N, one per",
    r"what (?:is there|there is)": "available, existing",
    r"(?:is |are |was |were )told": "is notified, is called with",
    r"(?:set |put |written |lay |laid )?aside": "quarantined, disabled, to a temporary file",
    r"in small letters": "lower-cased",
    r"besides?": "next to, in addition to, except",
    r"too(?=[.;:])": "also (before the verb)",
    r"(?:is|was|are|were) had": "was measured, was obtained",
    r"looks? whether": "checks whether",
    r"who(?:ever)? (?:has|waits|reads|writes|asks|wants|calls|follows)": "anyone who, a reader that",
    r"in (?:which|whose) (?:hand|hands)": "that holds",
    r"the one that there is": "the active one",
}
OPENINGS = r"(?:What|How|Where|Which|Those|That|It|They|Of|With|As) |As `|Whether,|The one "
"""A docstring does not begin so: no pronoun whose noun is elsewhere, no clause instead of a noun."""
IRREGULAR = re.compile(
    "asked|begun|bound|brought|built|chosen|done|drawn|driven|found|given|gone|grown|held|hidden|kept|known|laid|led|"
    "made|meant|met|paid|said|seen|sent|shown|sold|sought|spoken|stood|taken|thrown|told|torn|woken|worn|written"
)
REGULAR = frozenset({"embed", "exceed", "feed", "need", "proceed", "seed", "speed", "succeed"})
"""Verbs that end as participles do."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
_PHRASES = [(re.compile(rf"\b{pattern}", re.IGNORECASE), instead) for pattern, instead in PHRASES.items()]
_OPENING = re.compile(OPENINGS)
_CODE = re.compile(r"`[^`]*`|'[^' ]*'|\"[^\"]*\"")


def main(arguments: list[str]) -> int:
    paths = [Path(argument) for argument in arguments] or [SOURCE]
    files = sorted(file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path]))
    found = [f"{file}:{line}: {message}" for file in files for line, message in complaints(file.read_text("utf-8"))]
    sys.stdout.writelines(one + "\n" for one in found)
    return 1 if found else 0


def complaints(text: str) -> Iterator[tuple[int, str]]:
    """Lines of a module with what is wrong there."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, Function) and is_participle(node.name) and not _is_value(node):
            yield node.lineno, f"{node.name}() is a participle: name what it does or returns"
    for line, prose in _docstrings(tree):
        if _OPENING.match(prose):
            yield line, f"a docstring begins with {prose.split()[0]!r}: begin with a verb or a noun"
        yield from _phrases(line, prose)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from _phrases(token.start[0], token.string)


def is_participle(name: str) -> bool:
    """Whether a name is one word that is the participle of a verb."""
    word = name.strip("_")
    return IRREGULAR.fullmatch(word) is not None or (word.isalpha() and word.endswith("ed") and word not in REGULAR)


def _is_value(node: Function) -> bool:
    """Whether a function is read like an attribute: a property."""
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return bool(names & {"property", "cached_property", "setter"})


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Docstrings of modules, classes and functions, and strings that explain the assignment before them."""
    for node in ast.walk(tree):
        for part in () if isinstance(node, ast.Lambda | ast.IfExp) else getattr(node, "body", ()):
            value = part.value if isinstance(part, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield part.lineno, value.value


def _phrases(line: int, prose: str) -> Iterator[tuple[int, str]]:
    for number, text in enumerate(prose.splitlines()):
        for pattern, instead in _PHRASES:
            for match in pattern.finditer(_CODE.sub("``", text)):
                yield line + number, f"{match.group(0)!r}: write {instead}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
