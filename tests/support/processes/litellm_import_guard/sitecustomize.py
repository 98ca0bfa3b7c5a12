"""An import guard for litellm, for processes with this folder on their path.

With `DOOR` naming a FIFO, importing litellm blocks until something is written to it. Without
`DOOR`, the process says who imports it and exits. So tests see what needs litellm, and that nothing
else waits for it. A forked process has our modules already: what they import as they load is tested
by `tests/services/cli/test_role_imports.py`.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
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
            traceback.print_stack()
            sys.stderr.flush()
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


def remove_litellm_filters() -> None:
    """Remove what litellm added to loggers of others, such as asyncio: it imports litellm again."""
    for name in tuple(logging.root.manager.loggerDict):
        logger = logging.getLogger(name)
        for each in tuple(logger.filters):
            if type(each).__module__.partition(".")[0] == "litellm":
                logger.removeFilter(each)


# A test that imports this module for its exit code installs no guard.
if __name__ == "sitecustomize":
    for name in [name for name in sys.modules if name.partition(".")[0] == "litellm"]:
        del sys.modules[name]
    remove_litellm_filters()
    sys.meta_path.insert(0, LitellmImportGuard())
