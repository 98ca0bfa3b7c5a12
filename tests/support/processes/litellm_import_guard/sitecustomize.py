"""An import guard for litellm, for processes with this folder on their path.

With `DOOR` naming a FIFO, importing litellm blocks until something is written to it. Without
`DOOR`, the process exits at the import. So tests see what needs litellm, and that nothing else
waits for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

IMPORTED_EXIT_CODE = 97
"""Exit code of a process that imported litellm and may not."""


class LitellmImportGuard:
    """An import finder that comes before all others."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "litellm":
            return None
        if "DOOR" not in os.environ:
            os._exit(IMPORTED_EXIT_CODE)
        found = PathFinder.find_spec(name, path, target)
        assert found is not None
        assert found.loader is not None
        execute = found.loader.exec_module

        def opened(module: ModuleType) -> None:
            Path(os.environ["DOOR"]).read_bytes()
            execute(module)

        # Block in `exec_module` and not here: a finder that blocks holds up all other imports.
        found.loader.exec_module = opened  # type: ignore[method-assign]
        return found


# A test that imports this module for its exit code installs no guard.
if __name__ == "sitecustomize":
    for name in [name for name in sys.modules if name.partition(".")[0] == "litellm"]:
        del sys.modules[name]
    sys.meta_path.insert(0, LitellmImportGuard())
