"""Phrases and names that read like a translation, found in the source and in the pages of the project (`make lint`).

In Python files: names, docstrings, comments and texts of messages. In Markdown: all but code. Each pattern has the
wording to use instead; correct uses are excluded in the pattern. Functions are named by verbs or nouns, never by bare
participles; docstrings begin with a verb or with a noun that names the thing. Arguments are the folders and files to
read.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from bisect import bisect
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PLACES = [
    PROJECT / "src" / "episode",
    *(PROJECT / name for name in ("docs", "bench", "examples", "tests/conformance", "README.md", "CONTRIBUTING.md")),
    *(PROJECT / name for name in ("CHANGELOG.md", "SECURITY.md", ".github")),
]
PROSE = (".py", ".md")
WORDS = re.compile(r"\w+ +\w+ +\w+")
"""A string of a message, and not a name or a key, has three words in a row."""

PHRASES = {
    r"where (?:there (?:is|are)|none is|one is|needed)": "if …",
    r"(?<!stay )where (?:it is|they are|that is)(?! \w+(?:ed|en|nd)\b)": "if …",
    r"says?\b": "sets, explains, declares; see …",
    r"(?<!there )(?:is|are) no (?!longer|more|less|fewer|other|(?:lat|earli|great|larg|small|wid)er)\w+": "not a",
    r"(?<!there )(?:is|are) none": "is not one, there are none of",
    r"stands? (?!for\b)\w+": "is, appears",
    r"go(?:es|ing)? on\b": "continues, resumes",
    r"(?:comes?|came|is|are|hands?|handed|gives?) out\b": "is returned, is emitted",
    r"of (?:its|their|one's|your|his) own(?! (?!and|or|for|in|to|from|that|which|with|by|between|at|as)\w)": "its own",
    r"so (?:many|often|few|much|long) (?!as\b|that\b|large\b)\w+": "N, up to N",
    r"as (?:many|often) as": "up to N, one per",
    r"what (?:is there|there is)": "available, existing",
    r"(?:is |are |was |were )told(?! apart)": "is notified, is called with",
    r"(?:set |put |written |lay |laid )?aside": "quarantined, disabled, to a temporary file",
    r"in small letters": "lower-cased",
    r"besides?": "next to, in addition to, except",
    r"too(?=[.;:])": "also (before the verb)",
    r"(?:is|was|are|were) had": "was measured, was obtained",
    r"looks? whether": "checks whether",
    r"(?<![a-z] )who(?:ever)? (?:has|waits|reads|writes|asks|wants|calls|follows)": "anyone who, a reader that",
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
_FENCED = re.compile(r"^ *(```|~~~).*?^ *\1 *$|<!--.*?-->|\]\([^)\n]*\)", re.MULTILINE | re.DOTALL)
"""Code blocks, comments and addresses of a page."""


def main(arguments: list[str]) -> int:
    paths = [Path(argument) for argument in arguments] or PLACES
    files = sorted(file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]))
    found = [
        f"{file}:{line}: {message}"
        for file in files
        if file.suffix in PROSE and (arguments or file.suffix == ".md" or file.is_relative_to(PLACES[0]))
        if "results" not in file.parts  # pages that experiments write
        for line, message in (complaints if file.suffix == ".py" else page_complaints)(file.read_text("utf-8"))
    ]
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
    for line, prose in _messages(tree):
        yield from _phrases(line, prose)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from _phrases(token.start[0], token.string)


def page_complaints(text: str) -> Iterator[tuple[int, str]]:
    """Lines of a page in Markdown with what is wrong there."""
    yield from _phrases(1, _FENCED.sub(lambda found: "\n" * found.group(0).count("\n"), text))


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
        for part in _statements(node):
            value = part.value if isinstance(part, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield part.lineno, value.value


def _messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Strings of several words that are not docstrings; an f-string without its expressions."""
    explained = {id(part.value) for node in ast.walk(tree) for part in _statements(node) if isinstance(part, ast.Expr)}
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            texts = [part.value if isinstance(part, ast.Constant) else "``" for part in node.values]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (explained | inner):
            texts = [node.value]
        else:
            continue
        if WORDS.search("".join(map(str, texts))):
            yield node.lineno, "".join(map(str, texts))


def _statements(node: ast.AST) -> list[ast.stmt]:
    return [] if isinstance(node, ast.Lambda | ast.IfExp) else getattr(node, "body", [])


def _phrases(line: int, prose: str) -> Iterator[tuple[int, str]]:
    text = _CODE.sub(lambda found: "``" + "\n" * found.group(0).count("\n"), prose)
    lines = [part.strip().removeprefix("> ") for part in text.split("\n")]
    ends = list(accumulate(len(part) + 1 for part in lines))
    for pattern, instead in _PHRASES:
        for match in pattern.finditer(" ".join(lines)):
            yield line + bisect(ends, match.start()), f"{match.group(0)!r}: write {instead}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
