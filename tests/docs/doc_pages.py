"""Pages of the documentation as programs: their blocks, and the output that the page states.

`python`, `sh` and `js` blocks are run: the blocks of one kind on a page in order, as one program. A
`text` or `json` block directly after one is its output, where `...` matches anything. `console`,
`yaml`, `toml` and `http` blocks are for reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

SEPARATE_PAGES = frozenset({ROOT / "docs/back-up.md", ROOT / "docs/forgetting.md"})
"""Pages whose blocks need another service than the others'; tests of their own run them."""

RUN_LANGUAGES = frozenset({"python", "sh", "js"})

OUTPUT_LANGUAGES = frozenset({"text", "json"})

READING_LANGUAGES = frozenset({"console", "yaml", "http", "toml"})

_FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

_LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


@dataclass(frozen=True, slots=True)
class DocBlock:
    """One block of code, and its output if the page states it."""

    language: str
    code: str
    line: int
    printed: str | None = None


def list_pages() -> list[Path]:
    """List every page written by people; generated references are tested elsewhere."""
    docs = sorted((ROOT / "docs").rglob("*.md"))
    top = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return [*top, *(page for page in docs if page.parent.name != "reference")]


def format_page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def list_blocks(page: Path) -> list[DocBlock]:
    """List the blocks of a page in order."""
    return list(_iterate_blocks(page.read_text()))


def _iterate_blocks(text: str) -> Iterator[DocBlock]:
    before: DocBlock | None = None
    end = 0
    for fence in _FENCE.finditer(text):
        language, code = fence.groups()
        adjoining = not text[end : fence.start()].strip()
        if (
            language in OUTPUT_LANGUAGES
            and before
            and before.language in RUN_LANGUAGES
            and adjoining
        ):
            yield DocBlock(before.language, before.code, before.line, code)
            before = None
        else:
            if before:
                yield before
            before = DocBlock(language, code, text.count("\n", 0, fence.start()) + 1)
        end = fence.end()
    if before:
        yield before


def list_links(page: Path) -> list[str]:
    """List the link targets of a page within the repository."""
    found: list[str] = _LINK.findall(_FENCE.sub("", page.read_text()))
    return [link for link in found if "://" not in link]


def compile_output_pattern(expected: str) -> re.Pattern[str]:
    """Compile the output that a page states into a pattern."""
    parts = (re.escape(part) for part in expected.strip().split("..."))
    return re.compile(".*?".join(parts), re.DOTALL)
