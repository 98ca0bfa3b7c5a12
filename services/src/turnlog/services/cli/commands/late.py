"""How a command begins its work: imports come with the first use, and Ctrl-C is no accident."""

# ruff: noqa: PLC0415 - what is imported here takes longer than help may take

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

import typer

from turnlog.services.cli.options import Asked

if TYPE_CHECKING:
    from turnlog.services.cli.reader.reader import Reader

INTERRUPTED: Final = 130
"""What a shell expects of a program that Ctrl-C ended."""
Given = TypeVar("Given")


def reading(
    asked: Asked, work: Callable[[Reader], Awaitable[Given]], *, rows: bool = False
) -> Given:
    """Do some reading where the options say; `rows` where read models are asked as well."""
    from turnlog.services.cli.reader.opened import opened

    async def read() -> Given:
        async with opened(asked, rows=rows) as reader:
            return await work(reader)

    return running(read())


def running(work: Coroutine[Any, Any, Given]) -> Given:
    """Run something to its end, or until Ctrl-C."""
    import asyncio

    from turnlog.services.runtime.tasks import to_the_end

    try:
        return asyncio.run(to_the_end(work))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
