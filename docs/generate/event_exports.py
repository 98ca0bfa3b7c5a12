"""Writes what `turnlog.events` exports: all known events, and the other names that it imports.

`make docs` runs it, and a test fails when the committed file differs from its output.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from docs.generate.support.source_format import format_source

from turnlog.events.registry import EVENT_TYPES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "events/src/turnlog/events/__init__.py"

EVENT_IMPORT = r"    from turnlog\.events\.model\.\w+_events import (?:\([^)]*\)|[^\n]*)\n"
BLOCK_START = "if TYPE_CHECKING:\n"
EXPORTS = r"__all__ = \[[^\]]*\]"


def build_package(text: str) -> str:
    """Return the package's text with an import of every known event, and all names in `__all__`."""
    imports = (
        f"    from {kind.__module__} import {kind.__name__}\n" for kind in EVENT_TYPES.values()
    )
    text = re.sub(EVENT_IMPORT, "", text).replace(BLOCK_START, BLOCK_START + "".join(imports), 1)
    names = sorted({name for name in _iterate_imported_names(text) if name != "TYPE_CHECKING"})
    exports = f"__all__ = [{', '.join(map(repr, names))}]"
    return format_source(re.sub(EXPORTS, lambda _: exports, text), PACKAGE, "I,RUF022")


def _iterate_imported_names(text: str) -> Iterator[str]:
    """Yield the names that the package imports for type checkers."""
    (block,) = (
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


if __name__ == "__main__":
    PACKAGE.write_text(build_package(PACKAGE.read_text()))
    print(PACKAGE)
