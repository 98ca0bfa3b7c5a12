"""Pages of the documentation as programs: their blocks, and what they print according to the page.

A `python` block or an `sh` block is run, each page's blocks of one kind in order and as one
program. A `text` or `json` block right behind one is what it prints, where `...` stands for
anything. Blocks marked `console`, `yaml` or `http` are for reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN = frozenset({"python", "sh"})
PRINTED = frozenset({"text", "json"})
READ = frozenset({"console", "yaml", "http"})

_FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@dataclass(frozen=True, slots=True)
class Block:
    """One block of code, and what it prints if the page says so."""

    language: str
    code: str
    line: int
    printed: str | None = None


def pages() -> list[Path]:
    """Name every page that people wrote; references are generated, and tested where they are."""
    docs = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", *(page for page in docs if page.parent.name != "reference")]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """Give the blocks of a page in order."""
    return list(_blocks(page.read_text()))


def _blocks(text: str) -> Iterator[Block]:
    before: Block | None = None
    end = 0
    for fence in _FENCE.finditer(text):
        language, code = fence.groups()
        adjoining = not text[end : fence.start()].strip()
        if language in PRINTED and before and before.language in RUN and adjoining:
            yield Block(before.language, before.code, before.line, code)
            before = None
        else:
            if before:
                yield before
            before = Block(language, code, text.count("\n", 0, fence.start()) + 1)
        end = fence.end()
    if before:
        yield before


def links(page: Path) -> list[str]:
    """Give where a page leads to within the repository."""
    found: list[str] = _LINK.findall(_FENCE.sub("", page.read_text()))
    return [link for link in found if "://" not in link]


def as_printed(expected: str) -> re.Pattern[str]:
    """Make a pattern of what a page says is printed."""
    parts = (re.escape(part) for part in expected.strip().split("..."))
    return re.compile(".*?".join(parts), re.DOTALL)
