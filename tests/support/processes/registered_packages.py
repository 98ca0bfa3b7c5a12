"""A package that registers something with Turnlog, as an installer leaves it, in this process."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from turnlog.services.extensions.plugins import read_entry_points


@contextmanager
def register_package(folder: Path, group: str, entry: str, source: str) -> Generator[None]:
    """Have a module with this source on the path, with one entry point: `name=module:function`."""
    module = entry.partition("=")[2].partition(":")[0]
    (folder / f"{module}.py").write_text(source)
    described = folder / f"{module}-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Name: {module}\nVersion: 1\n")
    (described / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(folder)
        read_entry_points.cache_clear()
        yield
        sys.modules.pop(module, None)
    read_entry_points.cache_clear()
