"""SQLAlchemy's asynchronous engine and connection, imported without its ORM.

`sqlalchemy.ext.asyncio` imports the ORM for sessions of objects. Statements here are those of
SQLAlchemy Core, and the ORM is 6 MB of a gateway and up to 5 % of the time of its imports
(`python -m benchmarks.library_patches`). Whoever imports the whole package later gets it, with the
same engine and connection.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Final

__all__ = ["AsyncConnection", "AsyncEngine", "create_async_engine"]

_PACKAGE: Final = "sqlalchemy.ext.asyncio"


def _import_engine() -> None:
    spec = find_spec(_PACKAGE)
    if spec is None or _PACKAGE in sys.modules:
        return
    # A package whose `__init__` did not run, for as long as the one module of it is imported.
    sys.modules[_PACKAGE] = module_from_spec(spec)
    try:
        import_module(f"{_PACKAGE}.engine")
    finally:
        del sys.modules[_PACKAGE]


_import_engine()

from sqlalchemy.ext.asyncio.engine import (  # noqa: E402 - prepared above
    AsyncConnection,
    AsyncEngine,
    create_async_engine,
)
