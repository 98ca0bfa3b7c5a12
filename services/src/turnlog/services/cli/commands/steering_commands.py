"""Commands that change how a session continues; the rules of sessions decide each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from turnlog.contract.value_names import RedactedPart
from turnlog.events.errors import Refused
from turnlog.services.cli.command_runner import (
    CommandEntry,
    confirm_command,
    run_command,
    show_answer,
)
from turnlog.services.cli.options import OutputOption, ReadTarget, ServiceTarget, SessionArgument

if TYPE_CHECKING:
    from pydantic import JsonValue
    from rich.console import RenderableType


SharedUserArgument = Annotated[
    str, typer.Argument(metavar="USER", help="The user whom the session is shared with.")
]


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
    from turnlog.client import operations

    operation = operations.switch_profile(session, profile, model=model)
    confirm_command(target, operation, f"{session} goes on as asked", output)


def cancel_turn(
    session: SessionArgument,
    turn: Annotated[
        int | None,
        typer.Argument(metavar="[TURN]", min=1, help="A queued turn; by default the running one."),
    ] = None,
    *,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Cancel the running turn, or one that waits behind it."""
    from turnlog.client import operations
    from turnlog.contract.turn_payloads import CommandResult
    from turnlog.services.cli.views.theme import render_confirmation

    def render(done: CommandResult) -> RenderableType:
        return render_confirmation(f"turn {done.turn} is cancelled", done.sequence)

    run_command(target, operations.cancel_turn(session, turn), render, output)


def close_session(
    session: SessionArgument,
    *,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Recorded with the closing.")
    ] = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Close a session and its children: they take no more turns, and can be read and forked."""
    from turnlog.client import operations
    from turnlog.contract.turn_payloads import CloseResult
    from turnlog.services.cli.views.theme import WARNING, render_confirmation

    def render(done: CloseResult) -> RenderableType:
        closed = sum(child.closed for child in done.children)
        left = [child.session for child in done.children if not child.closed]
        whose = f" with {closed} child session{'' if closed == 1 else 's'}" if closed else ""
        text = render_confirmation(f"{session} is closed{whose}", done.sequence)
        if left:
            text.append(f"\n{', '.join(left)}: still open; close {session} again", WARNING)
        return text

    run_command(target, operations.close_session(session, reason), render, output)


def describe_session(
    session: SessionArgument,
    *,
    title: Annotated[
        str | None,
        typer.Option("--title", metavar="TEXT", help="The new title; empty for none."),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label", metavar="LABEL", help="One of all labels from now on; may be repeated."
        ),
    ] = None,
    no_labels: Annotated[bool, typer.Option("--no-labels", help="Remove all labels.")] = False,
    metadata: Annotated[
        str | None,
        typer.Option("--metadata", metavar="JSON", help="Keys to change; null removes one."),
    ] = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Give a session another title, other labels or metadata, also when it is closed."""
    from turnlog.client import operations

    if label and no_labels:
        raise typer.BadParameter("it says both", param_hint="--label and --no-labels")
    operation = operations.describe_session(
        session,
        title=title,
        labels=[] if no_labels else label,
        metadata=None if metadata is None else _parse_object(metadata, "--metadata"),
    )
    confirm_command(target, operation, f"{session} is described so", output)


def _parse_object(text: str, option: str) -> dict[str, JsonValue]:
    from turnlog.projections.blueprint.bounded_json import parse_tool_arguments

    found = parse_tool_arguments(text)
    if found is None:
        raise typer.BadParameter("it is no JSON object", param_hint=option)
    return found


def repeat_debrief(
    session: SessionArgument, *, target: ServiceTarget, output: OutputOption = "table"
) -> None:
    """Hold a debrief again that failed, was cancelled or was withheld."""
    from turnlog.client import operations
    from turnlog.contract.turn_payloads import SubmittedTurn
    from turnlog.services.cli.views.theme import render_confirmation

    def render(done: SubmittedTurn) -> RenderableType:
        return render_confirmation(f"turn {done.turn} holds the debrief again", done.sequence)

    run_command(target, operations.submit_turn(session), render, output)


@dataclass(frozen=True, slots=True)
class EditedArguments:
    """The arguments that a person was shown, and those that the person wrote instead."""

    shown: Annotated[
        str | None,
        typer.Option(
            "--shown", metavar="DIGEST", help="Digest of the arguments that were shown to you."
        ),
    ] = None
    arguments: Annotated[
        str | None,
        typer.Option(
            "--arguments", metavar="JSON", help="Run the tool with these instead; needs --shown."
        ),
    ] = None

    def parse_arguments(self) -> dict[str, JsonValue] | None:
        """Return the arguments that are given; None if there are none."""
        return None if self.arguments is None else _parse_object(self.arguments, "--arguments")


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
    edit: EditedArguments,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Approve or refuse a tool that waits for it; `approvals` lists those that do."""
    from turnlog.client import operations

    operation = operations.decide_approval(
        session=session,
        turn=turn,
        approval=approval,
        decision="refuse" if refuse else "approve",
        reason=reason,
        shown=edit.shown,
        arguments=edit.parse_arguments(),
    )
    word = "refused" if refuse else "approved"
    confirm_command(target, operation, f"approval {approval} of turn {turn} is {word}", output)


def request_schemas(
    session: SessionArgument, *, target: ServiceTarget, output: OutputOption = "table"
) -> None:
    """Describe the tools in full again, from the next call on, for one turn."""
    from turnlog.client import operations

    operation = operations.request_schemas(session)
    confirm_command(target, operation, "the next turn is told of all tools in full", output)


def purge_memory(
    session: SessionArgument, *, target: ServiceTarget, output: OutputOption = "table"
) -> None:
    """Exclude all turns so far from later windows; the record keeps them."""
    from turnlog.client import operations

    operation = operations.purge_memory(session)
    confirm_command(target, operation, "no window shows any turn so far", output)


def exclude_turn(
    session: SessionArgument,
    turn: Annotated[int, typer.Argument(metavar="TURN", min=1, help="Number of the turn.")],
    *,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only say which summaries it would undo, and their cost."),
    ] = False,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Exclude a turn from later windows; the summaries that cover it are undone."""
    from turnlog.client import operations
    from turnlog.services.cli.actions.memory_actions import render_exclusion_preview

    if not dry_run:
        operation = operations.exclude_turn(session, turn)
        confirm_command(target, operation, f"no later window shows turn {turn}", output)
        return
    show_answer(
        ReadTarget(url=target.url, data_dir=target.data_dir),
        operations.preview_exclusion(session, turn),
        render_exclusion_preview,
        output,
    )


def restore_turn(
    session: SessionArgument,
    turn: Annotated[int, typer.Argument(metavar="TURN", min=1, help="Number of the turn.")],
    *,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Include an excluded turn in later windows again."""
    from turnlog.client import operations

    operation = operations.restore_turn(session, turn)
    confirm_command(target, operation, f"windows show turn {turn} again", output)


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
    entry: Annotated[
        str | None,
        typer.Option(
            "--entry",
            metavar="COLLECTION/ENTRY",
            help="Judge only this entry of what the turn had retrieved.",
        ),
    ] = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Judge the reply of a turn: it counts for all that the turn had retrieved."""
    from turnlog.client import operations

    words = {"up": "voted up", "down": "voted down", "none": "without a vote"}
    judged = None if entry is None else _parse_entry(entry)
    operation = operations.record_feedback(session, turn, vote, comment=comment, entry=judged)
    what = f"turn {turn}" if entry is None else f"{entry} of turn {turn}"
    confirm_command(target, operation, f"{what} is {words[vote]}", output)


def _parse_entry(written: str) -> dict[str, str]:
    collection, _, entry = written.partition("/")
    if not collection or not entry:
        raise typer.BadParameter("write COLLECTION/ENTRY", param_hint="--entry")
    return {"collection": collection, "entry": entry}


@dataclass(frozen=True, slots=True)
class RedactedWords:
    """Which part of a text is redacted; by default all of it."""

    pattern: Annotated[
        str | None,
        typer.Option("--pattern", metavar="RE2", help="Only what it finds in the text."),
    ] = None
    spans: Annotated[
        list[str] | None,
        typer.Option(
            "--span", metavar="BEGIN:END", help="Only these characters of the text, from 0."
        ),
    ] = None

    def parse_spans(self) -> list[tuple[int, int]]:
        """Return the beginnings and ends that options such as `12:20` name."""
        return [_parse_span(each) for each in self.spans or ()]


def _parse_span(text: str) -> tuple[int, int]:
    begin, _, end = text.partition(":")
    if not (begin.isdecimal() and end.isdecimal()):
        fix = "write `--span 12:20` for the characters 12 to 19"
        raise Refused("invalid", f"{text!r} is no span", field="--span", fix=fix)
    return int(begin), int(end)


def redact_turn(
    session: SessionArgument,
    turn: Annotated[int, typer.Argument(metavar="TURN", min=1, help="Number of the turn.")],
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Recorded, and shown to readers.")
    ],
    of: Annotated[
        RedactedPart,
        typer.Option("--of", help="The reply, the text that was submitted, or both (`turn`)."),
    ] = "reply",
    words: RedactedWords,
    replacement: Annotated[
        str | None,
        typer.Option(
            "--replacement",
            metavar="TEXT",
            help="Shown instead; by default the blueprint's for a reply, `[withheld]` for a text.",
        ),
    ] = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Redact a reply with what its tools gave, or a person's text, for all readers but an audit.

    This cannot be undone. With a text go the inputs and metadata of its turn, and pictures beside
    it if all of it is redacted. A reply may repeat the text: `--of turn` redacts both.
    """
    from turnlog.client import operations

    operation = operations.redact_turn(
        session=session,
        turn=turn,
        reason=reason,
        of=of,
        replacement=replacement,
        pattern=words.pattern,
        spans=words.parse_spans(),
    )
    confirm_command(target, operation, f"{_REDACTED_WORDS[of]} turn {turn} is redacted", output)


_REDACTED_WORDS: Final = {"reply": "the reply of", "text": "the text of", "turn": "all of"}


def undo_summary(
    session: SessionArgument,
    sequence: Annotated[
        int,
        typer.Argument(metavar="SEQUENCE", min=1, help="Sequence of the event with the summary."),
    ],
    *,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Undo a summary: windows include the original turns again."""
    from turnlog.client import operations

    operation = operations.undo_summary(session, sequence)
    what = f"windows show again what event {sequence} summed up"
    confirm_command(target, operation, what, output)


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
    from rich.text import Text

    from turnlog.client import operations
    from turnlog.contract.session_payloads import ForkedSession
    from turnlog.services.cli.views.theme import MUTED

    def render(made: ForkedSession) -> RenderableType:
        origin = f"  continues from {session} at sequence {at:,}"
        return Text(made.session, "bold").append(origin, MUTED)

    run_command(target, operations.fork_session(session, at, fork=into), render, output)


def share_session(
    session: SessionArgument,
    user: SharedUserArgument,
    *,
    submit: Annotated[
        bool, typer.Option("--submit", help="Let the user take part in it too, not only read it.")
    ] = False,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Let another user read a session."""
    from turnlog.client import operations

    operation = operations.share_session(session, user, "submit" if submit else "read")
    done = f"{session} is shared with {user}, who {'takes part in' if submit else 'reads'} it"
    confirm_command(target, operation, done, output)


def end_sharing(
    session: SessionArgument,
    user: SharedUserArgument,
    *,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """End what a user may do in a session that was shared."""
    from turnlog.client import operations

    operation = operations.end_sharing(session, user)
    confirm_command(target, operation, f"{session} is not shared with {user}", output)


STEERING_COMMANDS: Final = (
    CommandEntry("cancel", cancel_turn),
    CommandEntry("close", close_session),
    CommandEntry("describe", describe_session),
    CommandEntry("switch", switch_profile),
    CommandEntry("debrief", repeat_debrief),
    CommandEntry("approve", decide_approval),
    CommandEntry("schemas", request_schemas),
    CommandEntry("purge", purge_memory),
    CommandEntry("exclude", exclude_turn),
    CommandEntry("restore", restore_turn),
    CommandEntry("feedback", record_feedback),
    CommandEntry("redact", redact_turn),
    CommandEntry("undo", undo_summary),
    CommandEntry("fork", fork_session),
    CommandEntry("share", share_session),
    CommandEntry("unshare", end_sharing),
)
"""These commands in the order of `--help`."""
