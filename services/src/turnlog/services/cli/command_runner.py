"""Run the work of a command in an event loop until it ends or Ctrl-C is pressed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

import typer

from turnlog.services.cli.options import ReadTarget

if TYPE_CHECKING:
    from rich.console import RenderableType

    from turnlog.contract.payload_models import ResponseModel
    from turnlog.services.cli.client.service_reader import ServiceReader
    from turnlog.services.cli.console import OutputFormat

INTERRUPTED_EXIT_CODE: Final = 130
"""The exit code that a shell expects of a program ended by Ctrl-C."""

ResultT = TypeVar("ResultT")

AnswerT = TypeVar("AnswerT", bound="ResponseModel")


def run_with_reader(
    target: ReadTarget,
    work: Callable[[ServiceReader], Awaitable[ResultT]],
    *,
    with_read_models: bool = False,
) -> ResultT:
    """Run `work` with a reader of `target`; `with_read_models` updates the read models first."""
    from turnlog.services.cli.client.service_connection import open_reader

    async def read() -> ResultT:
        async with open_reader(target, with_read_models=with_read_models) as reader:
            return await work(reader)

    return run_async(read())


def show_answer(
    target: ReadTarget,
    fetch: Callable[[ServiceReader], Awaitable[AnswerT]],
    render: Callable[[AnswerT], RenderableType],
    output: OutputFormat,
    *,
    with_read_models: bool = False,
) -> None:
    """Fetch an answer from `target` and print it, as a rendering or as the JSON of HTTP."""
    from turnlog.services.cli.console import print_answer

    async def show(reader: ServiceReader) -> None:
        answer = await fetch(reader)
        print_answer(answer, render(answer), output)

    run_with_reader(target, show, with_read_models=with_read_models)


def run_async(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine to its end; Ctrl-C exits with `INTERRUPTED_EXIT_CODE`."""
    import asyncio

    from turnlog.services.platform.concurrency import run_to_completion

    try:
        return asyncio.run(run_to_completion(work))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED_EXIT_CODE) from None


def exit_cleanly_on_signals() -> None:
    """Exit with code 0 on SIGTERM and when the terminal is closed, until the service handles them.

    Its imports take seconds, and nothing that needs an orderly end has begun meanwhile.
    """
    import signal

    def leave(_number: int, _frame: object) -> None:
        raise SystemExit(0)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
