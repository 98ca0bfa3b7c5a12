"""What a command is, and how its work runs in an event loop to its end or until Ctrl-C."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import typer

from turnlog.services.cli.options import LookTarget, ReadTarget, ServiceTarget

if TYPE_CHECKING:
    from rich.console import RenderableType

    from turnlog.client import ClientOperation
    from turnlog.contract.payload_models import ResponseModel
    from turnlog.contract.turn_payloads import CommandResult
    from turnlog.services.cli.client.service_client import ServiceClient
    from turnlog.services.cli.console import OutputFormat

INTERRUPTED_EXIT_CODE: Final = 130
"""The exit code that a shell expects of a program ended by Ctrl-C."""

ResultT = TypeVar("ResultT")

AnswerT = TypeVar("AnswerT", bound="ResponseModel")

ResultOfCommandT = TypeVar("ResultOfCommandT", bound="CommandResult")


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command; a name of two words puts it into a command group."""

    name: str
    function: Callable[..., None]


def run_with_service(
    target: ReadTarget,
    work: Callable[[ServiceClient], Awaitable[ResultT]],
    *,
    with_read_models: bool = False,
) -> ResultT:
    """Run `work` with a client of `target`; `with_read_models` updates the read models first."""
    from turnlog.services.cli.client.service_client import open_service

    async def read() -> ResultT:
        async with open_service(target, with_read_models=with_read_models) as service:
            if isinstance(target, LookTarget):
                service.turnlog.set_reason(target.reason)
            return await work(service)

    return run_async(read())


def show_answer(
    target: ReadTarget,
    operation: ClientOperation[AnswerT],
    render: Callable[[AnswerT], RenderableType],
    output: OutputFormat,
    *,
    with_read_models: bool = False,
) -> None:
    """Send a read to `target` and print its answer, as a rendering or as the JSON of HTTP."""
    show_result(
        target,
        lambda service: service.send(operation),
        render,
        output,
        with_read_models=with_read_models,
    )


def show_result(
    target: ReadTarget,
    fetch: Callable[[ServiceClient], Awaitable[AnswerT]],
    render: Callable[[AnswerT], RenderableType],
    output: OutputFormat,
    *,
    with_read_models: bool = False,
) -> None:
    """Print what several reads of `target` result in, as `show_answer` prints an answer."""
    from turnlog.services.cli.console import print_answer

    async def show(service: ServiceClient) -> None:
        answer = await fetch(service)
        print_answer(answer, render(answer), output)

    run_with_service(target, show, with_read_models=with_read_models)


def run_command(
    target: ServiceTarget,
    operation: ClientOperation[AnswerT],
    render: Callable[[AnswerT], RenderableType],
    output: OutputFormat,
) -> None:
    """Send a command to the service of `target` and print its answer as `show_answer` does."""
    from turnlog.services.cli.client.service_client import send_command
    from turnlog.services.cli.console import print_answer

    async def run() -> None:
        answer = await send_command(target, operation)
        print_answer(answer, render(answer), output)

    run_async(run())


def confirm_command(
    target: ServiceTarget,
    operation: ClientOperation[ResultOfCommandT],
    what: str,
    output: OutputFormat,
) -> None:
    """Send a command on a session, and print what it did and which event records it."""
    from turnlog.services.cli.views.theme import render_confirmation

    run_command(target, operation, lambda done: render_confirmation(what, done.sequence), output)


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
        if signal.getsignal(number) is not signal.SIG_IGN:  # As `nohup` leaves it
            signal.signal(number, leave)
