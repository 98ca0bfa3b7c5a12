"""Commands that list sessions and show one: its history, window and prompts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.services.cli.command_runner import run_with_service, show_answer, show_result
from turnlog.services.cli.options import (
    AtOption,
    LookTarget,
    OutputOption,
    PhaseOption,
    ReadTarget,
    SessionArgument,
)
from turnlog.services.cli.session_options import SessionListOptions

if TYPE_CHECKING:
    from turnlog.services.api.prompt_payloads import AssembledPromptView, WindowView
    from turnlog.services.cli.client.service_client import ServiceClient


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewOptions:
    """Options of a window preview; all are None when no preview is asked for."""

    text: Annotated[
        str | None,
        typer.Option("--text", metavar="WORDS", help="Message of a turn that does not exist yet."),
    ] = None
    attach: Annotated[
        list[Path] | None,
        typer.Option(
            "--attach",
            metavar="FILE",
            help="Picture, recording or file of that turn; may be repeated.",
        ),
    ] = None
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=VALUE",
            help="An input of that turn.",
        ),
    ] = None
    budget: Annotated[
        int | None, typer.Option(metavar="TOKENS", min=1, help="Another token budget.")
    ] = None
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="Another model.")] = (
        None
    )


def list_sessions(
    *, filters: SessionListOptions, target: ReadTarget, output: OutputOption = "table"
) -> None:
    """List sessions, newest first or in another order."""
    from turnlog.client.operations import build_read
    from turnlog.contract.session_payloads import SessionPage
    from turnlog.services.cli.client.session_selection import build_session_query
    from turnlog.services.cli.views.session_view import render_sessions

    show_answer(
        target,
        build_read(api_paths.SESSIONS, SessionPage, build_session_query(filters)),
        lambda page: render_sessions(page, filters.order),
        output,
        with_read_models=True,
    )


def show_session(
    session: SessionArgument,
    *,
    at: AtOption = None,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show one session with its turns, calls and forks; now or at any sequence."""
    from turnlog.services.cli.actions.query_actions import print_session

    run_with_service(
        target, lambda service: print_session(service, session, at, output), with_read_models=True
    )


def show_history(
    session: SessionArgument,
    *,
    at: AtOption = None,
    phase: PhaseOption = None,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show the conversation, turn by turn."""
    from turnlog.client import operations
    from turnlog.services.cli.views.session_view import render_conversation

    operation = operations.fetch_history(session, at=at, phase=phase)
    show_answer(target, operation, render_conversation, output)


def show_window(
    session: SessionArgument,
    *,
    call: Annotated[
        str | None, typer.Option(metavar="KIND", help="Kind of the call; by default the profile's.")
    ] = None,
    at: AtOption = None,
    clock: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Clock reading; by default the recorded one, or now."),
    ] = None,
    preview: PreviewOptions,
    target: LookTarget,
    output: OutputOption = "table",
) -> None:
    """Show the prompt of the next call, with its tokens by component and its cost.

    With --at it is the prompt of a call at that sequence, with the clock and the library of then.
    With --text or --attach it is the prompt of a turn that does not exist yet. Nothing is written,
    and no model is called.
    """
    from turnlog.client.operations import ClientOperation, build_read
    from turnlog.services.api.prompt_payloads import WindowView
    from turnlog.services.cli.actions.query_actions import (
        build_preview_request,
        parse_session_inputs,
    )
    from turnlog.services.cli.client.attached_files import read_preview_message
    from turnlog.services.cli.views.prompt_view import render_window

    path = format_path(api_paths.WINDOW, session=session)
    if preview == PreviewOptions():
        query = {"call": call, "at": at, "clock": clock}
        show_answer(target, build_read(path, WindowView, query), render_window, output)
        return

    async def preview_window(service: ServiceClient) -> WindowView:
        inputs = await parse_session_inputs(service, session, preview.inputs)
        form = build_preview_request(
            at,
            clock,
            call,
            message=read_preview_message(preview.text, preview.attach or ()),
            inputs=inputs,
            budget=preview.budget,
            model=preview.model,
        )
        return await service.send(
            ClientOperation("POST", path, WindowView, body=form.model_dump(mode="json"))
        )

    show_result(target, preview_window, render_window, output)


def assemble_prompt(
    blueprint: Annotated[str, typer.Argument(metavar="BLUEPRINT", help="Name of a blueprint.")],
    *,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            "-a", "--attribute", metavar="NAME=VALUE", help="Attribute, as of a new session."
        ),
    ] = None,
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="Profile, as of a new session.")
    ] = None,
    call: Annotated[
        str | None, typer.Option(metavar="KIND", help="Kind of the call; by default the profile's.")
    ] = None,
    preview: PreviewOptions,
    target: LookTarget,
    output: OutputOption = "table",
) -> None:
    """Assemble a prompt of a blueprint without a session; nothing is written.

    It is the first call that a new session with these attributes would make for its first turn,
    with the segments of the library and the prompt files as they are now. No model is called.
    """
    from turnlog.client import ClientOperation
    from turnlog.services.api.prompt_payloads import AssembledPromptView
    from turnlog.services.cli.actions.query_actions import (
        build_assemble_request,
        parse_attributes,
        parse_inputs,
    )
    from turnlog.services.cli.client.attached_files import read_preview_message
    from turnlog.services.cli.views.prompt_view import render_assembled_prompt

    async def assemble(service: ServiceClient) -> AssembledPromptView:
        values = await parse_attributes(service, blueprint, attribute or ())
        inputs = await parse_inputs(service, blueprint, preview.inputs)
        form = build_assemble_request(
            blueprint,
            values,
            profile,
            call,
            message=read_preview_message(preview.text, preview.attach or ()),
            inputs=inputs,
            budget=preview.budget,
            model=preview.model,
        )
        body = form.model_dump(mode="json")
        return await service.send(
            ClientOperation("POST", api_paths.ASSEMBLE, AssembledPromptView, body=body)
        )

    show_result(
        target,
        assemble,
        lambda assembled: render_assembled_prompt(blueprint, assembled),
        output,
    )


def show_prompt(
    session: SessionArgument,
    which: Annotated[
        str,
        typer.Argument(
            metavar="TURN|CALL", help="A call (3.1), or the turn (3) that it gave the reply of."
        ),
    ],
    *,
    target: LookTarget,
    output: OutputOption = "table",
) -> None:
    """Show the exact prompt of a call, with the source of every part."""
    from turnlog.services.cli.client.prompt_reads import fetch_prompt
    from turnlog.services.cli.views.prompt_view import render_prompt

    show_result(
        target, lambda service: fetch_prompt(service, session, which), render_prompt, output
    )


def show_tool_result(
    session: SessionArgument,
    call: Annotated[
        str,
        typer.Argument(metavar="CALL", help="The call that used the tool: 3.2 is turn 3, call 2."),
    ],
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of the tool use in that call.")],
    *,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show the whole result of a tool use, even if prompts contain only a summary."""
    from turnlog.client import operations
    from turnlog.services.cli.views.tool_result_view import render_tool_result

    show_answer(target, operations.fetch_tool_result(session, call, id), render_tool_result, output)
