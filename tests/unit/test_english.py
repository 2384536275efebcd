"""The linter of English: phrases, names and openings that it refuses, and correct uses that pass."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("english", Path(__file__).parents[2] / "scripts" / "english.py")
assert _SPEC is not None
assert _SPEC.loader is not None
english = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(english)


@pytest.mark.parametrize(
    "code",
    [
        'def f():\n    """Return the key, where there is one."""\n',
        'def f():\n    """See what the option says."""\n',
        'def f():\n    """What a matcher holds."""\n',
        'X = 1\n"""A row that is no event."""\n',
        "# the search goes on\n",
        "def shown():\n    return 1\n",
        "class A:\n    def _joined(self):\n        return 1\n",
        'def f(name):\n    raise ValueError(f"The table {name} is no table of Spark.")\n',
    ],
)
def test_what_reads_like_a_translation(code: str) -> None:
    assert len(list(english.complaints(code))) == 1


@pytest.mark.parametrize(
    "code",
    [
        'def f():\n    """Return the key if there is one; `says` is code."""\n',
        'def f():\n    """Return the events; there are no others, and there is no longer a limit."""\n',
        'def f():\n    """A letter stands for a class."""\n',
        "class A:\n    @property\n    def joined(self):\n        return 1\n",
        "def feed():\n    return 1\n",
        'KEYS = ("says", "goes on")\n',
    ],
)
def test_plain_english(code: str) -> None:
    assert list(english.complaints(code)) == []


def test_pages() -> None:
    page = """# Events

A match is reported when it is certain, and the search goes
on from there. `goes on` is code, and so is

```
the search goes on
```

* The [page](what-it-says.md) has more.
    <!-- it says nothing -->
* It is the same there, too.
"""
    found = list(english.page_complaints(page))
    assert found == [(3, "'goes on': write continues, resumes"), (12, "'too': write also (before the verb)")]
