"""Run the work of a command in an event loop until it ends or Ctrl-C is pressed."""

# ruff: noqa: PLC0415 - what is imported here takes longer than help may take

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

import typer

from turnlog.services.cli.options import Asked

if TYPE_CHECKING:
    from turnlog.services.cli.reader.reader import Reader

INTERRUPTED: Final = 130
"""The exit code that a shell expects of a program ended by Ctrl-C."""
Given = TypeVar("Given")


def reading(
    asked: Asked, work: Callable[[Reader], Awaitable[Given]], *, rows: bool = False
) -> Given:
    """Run `work` with a reader of `target`; `with_read_models` updates the read models first."""
    from turnlog.services.cli.reader.opened import opened

    async def read() -> Given:
        async with opened(asked, rows=rows) as reader:
            return await work(reader)

    return running(read())


def running(work: Coroutine[Any, Any, Given]) -> Given:
    """Run a coroutine to its end; Ctrl-C exits with `INTERRUPTED_EXIT_CODE`."""
    import asyncio

    from turnlog.services.runtime.tasks import to_the_end

    try:
        return asyncio.run(to_the_end(work))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
