"""Commands that change how a session continues, and the one that shows a tool result."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from turnlog.services.cli.command_runner import run_async, show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget, ServiceTarget, SessionArgument


def switch_profile(
    session: SessionArgument,
    *,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="PROFILE",
            help="New profile; the current one if only --model is given.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="New model that the blueprint allows; by default the profile's.",
        ),
    ] = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Switch a session to another profile or model, from its next turn on."""
    from turnlog.services.cli.actions.session_actions import send_switch

    run_async(
        send_switch(target=target, session=session, profile=profile, model=model, output=output)
    )


def repeat_debrief(
    session: SessionArgument, *, target: ServiceTarget, output: OutputOption = "table"
) -> None:
    """Hold a debrief again that failed, was cancelled or was withheld."""
    from turnlog.services.cli.actions.session_actions import send_debrief_request

    run_async(send_debrief_request(target, session, output))


def fork_session(
    session: SessionArgument,
    *,
    at: Annotated[
        int,
        typer.Option(
            "--at", metavar="SEQUENCE", min=1, help="Last event that both sessions share."
        ),
    ],
    into: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Id of the new session.")
    ] = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Create a session that continues from any sequence of this one, which does not change."""
    from turnlog.services.cli.actions.session_actions import send_fork

    run_async(send_fork(target=target, session=session, at=at, into=into, output=output))


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
    from turnlog.services.cli.actions.session_actions import render_tool_result

    show_answer(target, operations.fetch_tool_result(session, call, id), render_tool_result, output)


def decide_approval(
    session: SessionArgument,
    turn: Annotated[int, typer.Argument(metavar="TURN", min=1, help="The turn that waits.")],
    approval: Annotated[
        int, typer.Argument(metavar="APPROVAL", min=1, help="Number of the approval in that turn.")
    ] = 1,
    *,
    refuse: Annotated[bool, typer.Option("--refuse", help="Refuse the tool instead.")] = False,
    reason: Annotated[
        str,
        typer.Option("--reason", metavar="TEXT", help="Recorded; the model reads it if refused."),
    ] = "",
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Approve or refuse a tool that waits for it; `show` lists those that do."""
    from turnlog.services.cli.actions.session_actions import send_decision

    place = (session, turn, approval)
    run_async(
        send_decision(
            target=target,
            place=place,
            decision="refuse" if refuse else "approve",
            reason=reason,
            output=output,
        )
    )


def record_feedback(
    session: SessionArgument,
    turn: Annotated[int, typer.Argument(metavar="TURN", min=1, help="Number of the turn.")],
    vote: Annotated[
        Literal["up", "down", "none"],
        typer.Argument(metavar="VOTE", help="up, down, or none to take the vote back."),
    ],
    *,
    comment: Annotated[
        str | None, typer.Option("--comment", metavar="TEXT", help="What is to be said to it.")
    ] = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Judge the reply of a turn: it counts for all that the turn had retrieved."""
    from turnlog.services.cli.actions.session_actions import send_feedback

    run_async(
        send_feedback(
            target=target, place=(session, turn), vote=vote, comment=comment, output=output
        )
    )


def redact_reply(
    session: SessionArgument,
    turn: Annotated[int, typer.Argument(metavar="TURN", min=1, help="Number of the turn.")],
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Recorded, and shown to readers.")
    ],
    replacement: Annotated[
        str | None,
        typer.Option(
            "--replacement", metavar="TEXT", help="Shown instead; by default the blueprint's."
        ),
    ] = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Redact the reply of a turn, with what its tools gave, for all readers but an audit.

    This cannot be undone. The text of the user stays as it is; `turnlog exclude` keeps the turn
    out of later windows.
    """
    from turnlog.services.cli.actions.session_actions import send_redaction

    run_async(
        send_redaction(
            target=target,
            session=session,
            turn=turn,
            reason=reason,
            replacement=replacement,
            output=output,
        )
    )


def request_schemas(
    session: SessionArgument, *, target: ServiceTarget, output: OutputOption = "table"
) -> None:
    """Describe the tools in full again, from the next call on, for one turn."""
    from turnlog.services.cli.actions.session_actions import send_schema_request

    run_async(send_schema_request(target, session, output))
