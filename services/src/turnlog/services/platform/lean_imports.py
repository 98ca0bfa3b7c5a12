"""Imports of libraries without what they import for features that a service does not use.

nats-py imports aiohttp, if it is installed, for connections through WebSockets and nothing else:
8 MB of a gateway's 106, and 5 % of the processor time of its imports. structlog imports rich for
tracebacks in colour, which a log has none of: 4 MB, and up to 6 %. httpx imports a command line of
its own, with pygments and the progress bars of rich: 9 % of each of our commands, 3 MB of a worker.
`python -m benchmarks.library_patches` takes the figures.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, cast
from urllib.parse import urlsplit


def import_nats_for(address: str) -> None:
    """Import nats-py, with what it needs for WebSockets only if `address` is one of theirs."""
    if urlsplit(address).scheme not in {"ws", "wss"}:
        _import_without("aiohttp", "nats.aio.client")


def import_structlog() -> None:
    """Import structlog without rich."""
    _import_without("rich", "structlog")


def omit_httpx_program() -> None:
    """Let httpx be imported later, without its command line."""
    cast("dict[str, Any]", sys.modules).setdefault("httpx._main", None)


def _import_without(package: str, module: str) -> None:
    """Import a module as if a package that it can do without were not installed.

    Nothing is left to do where one of both has been imported already.
    """
    modules = cast("dict[str, Any]", sys.modules)
    if {package, module} & modules.keys():
        return
    # What Python itself defines for a module that must not be found.
    modules[package] = None
    try:
        import_module(module)
    finally:
        del modules[package]
