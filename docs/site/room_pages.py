"""Lists of modules on the pages of docs/dev/rooms, made from the docstrings of the modules.

`python docs/site/room_pages.py` writes them between their marks; a test fails if a page is not up to date.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "episode"
PAGES = ROOT / "docs" / "dev" / "rooms"
LIST = re.compile(r"<!-- modules: (?P<rooms>[^>]+) -->\n(?P<rows>.*?)<!-- end -->\n", re.DOTALL)
"""A list of modules: `<!-- modules: spark spark/scan -->`, rows, `<!-- end -->`. `*.py`: modules at the root."""


def modules_of(room: str) -> list[Path]:
    """Modules of a room: of one folder without those inside it, or single files."""
    found = SOURCE.glob(room) if "." in room else (SOURCE / room).glob("*.py")
    return sorted(path for path in found if path.name != "__init__.py")


def row_of(module: Path) -> str:
    paragraph = (ast.get_docstring(ast.parse(module.read_text("utf-8"))) or "").partition("\n\n")[0]
    first = " ".join(paragraph.split())
    return f"| `{module.relative_to(SOURCE).as_posix()}` | {first.replace('|', chr(92) + '|')} |"


def with_lists(page: str) -> str:
    """Return the page with each of its lists as the source has it now."""

    def fill(found: re.Match[str]) -> str:
        rows = "\n".join(row_of(module) for room in found["rooms"].split() for module in modules_of(room))
        return f"<!-- modules: {found['rooms']} -->\n| module | subject |\n| --- | --- |\n{rows}\n<!-- end -->\n"

    return LIST.sub(fill, page)


def modules_on(pages: Path = PAGES) -> set[Path]:
    """Return the modules that are on any of the pages."""
    texts = [path.read_text("utf-8") for path in pages.glob("*.md")]
    rooms = [room for text in texts for found in LIST.finditer(text) for room in found["rooms"].split()]
    return {module for room in rooms for module in modules_of(room)}


if __name__ == "__main__":
    for path in sorted(PAGES.glob("*.md")):
        path.write_text(with_lists(path.read_text("utf-8")), "utf-8")
