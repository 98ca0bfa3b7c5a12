"""A door before litellm, for processes that have this folder on their path.

With `DOOR` naming a FIFO, loading litellm waits until somebody writes to it; without, the process
ends there and then. So what needs litellm is found out for certain, and what must not wait for it
is seen not to.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

SLAMMED = 97
"""Exit code of a process that may not import litellm and did."""


class Door:
    """Stands before all other finders."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "litellm":
            return None
        if "DOOR" not in os.environ:
            os._exit(SLAMMED)
        found = PathFinder.find_spec(name, path, target)
        assert found is not None
        assert found.loader is not None
        execute = found.loader.exec_module

        def opened(module: ModuleType) -> None:
            Path(os.environ["DOOR"]).read_bytes()
            execute(module)

        # Not in here: while a module is sought, nobody else may import anything
        found.loader.exec_module = opened  # type: ignore[method-assign]
        return found


# A test that only wants to know the code has no door
if __name__ == "sitecustomize":
    for name in [name for name in sys.modules if name.partition(".")[0] == "litellm"]:
        del sys.modules[name]
    sys.meta_path.insert(0, Door())
