"""Actions on one session and the tool results and pins shown with it.

A running service carries out each action.
"""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from turnlog.client import operations
from turnlog.client.operations import build_command
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.contract.call_payloads import ToolResultView
from turnlog.contract.turn_payloads import CommandResult
from turnlog.events.model.retrieval_events import FeedbackVote
from turnlog.events.model.tool_events import ApprovalDecision
from turnlog.services.cli.client.service_client import send_command
from turnlog.services.cli.console import OutputFormat, print_answer
from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.views.text_format import (
    escape_controls,
    format_count,
    format_digest,
    format_one_line,
)
from turnlog.services.cli.views.theme import GOOD, MUTED


async def send_fork(
    target: ServiceTarget, session: str, at: int, into: str | None, output: OutputFormat
) -> None:
    """Fork a session and print the id of the fork."""
    made = await send_command(target, operations.fork_session(session, at, into))
    line = Text(made.session, "bold")
    print_answer(made, line.append(f"  continues from {session} at sequence {at:,}", MUTED), output)


async def send_switch(
    target: ServiceTarget,
    session: str,
    profile: str | None,
    model: str | None,
    output: OutputFormat,
) -> None:
    """Switch the profile or the model and print the event that records it."""
    done = await send_command(target, operations.switch_profile(session, profile, model))
    line = Text("✓ ", GOOD).append(f"{done.session} goes on as asked", "default")
    print_answer(done, line.append(f"  event {done.sequence}", MUTED), output)


async def send_debrief_request(target: ServiceTarget, session: str, output: OutputFormat) -> None:
    """Submit a turn without a text and print its number."""
    done = await send_command(target, operations.submit_turn(session))
    line = Text("✓ ", GOOD).append(f"turn {done.turn} holds the debrief again", "default")
    print_answer(done, line.append(f"  event {done.sequence}", MUTED), output)


def render_tool_result(found: ToolResultView) -> Group:
    """Render the full result of a tool use."""
    heading = Text(format_one_line(found.tool), "bold").append(
        f" {format_one_line(found.arguments)}", "default"
    )
    outcome = found.outcome or "not come back yet"
    summary = " · ".join(
        filter(None, (outcome, format_one_line(found.detail), *_describe_result_size(found)))
    )
    return Group(heading, Text(summary, MUTED), Text(escape_controls(found.result or "")))


def _describe_result_size(found: ToolResultView) -> tuple[str, ...]:
    if found.digest is None:
        return ()
    note = "prompts hold a summary of it" if found.treatment == "condensed" else ""
    return format_count(found.characters, "character"), f"blob {format_digest(found.digest)}", note


async def send_schema_request(target: ServiceTarget, session: str, output: OutputFormat) -> None:
    """Request full tool descriptions for the next turn and print a confirmation."""
    done = await send_command(
        target,
        build_command(format_path(api_paths.TOOL_SCHEMAS, session=session), {}, CommandResult),
    )
    print_answer(done, Text("the next turn is told of all tools in full"), output)


async def send_decision(
    target: ServiceTarget,
    place: tuple[str, int, int],
    decision: ApprovalDecision,
    reason: str,
    output: OutputFormat,
) -> None:
    """Approve or refuse a tool; `place` is its session, turn and approval."""
    session, turn, approval = place
    operation = operations.decide_approval(
        session=session, turn=turn, approval=approval, decision=decision, reason=reason
    )
    done = await send_command(target, operation)
    word = "approved" if decision == "approve" else "refused"
    line = Text("✓ ", GOOD).append(f"approval {approval} of turn {turn} is {word}", "default")
    print_answer(done, line.append(f"  event {done.sequence}", MUTED), output)


async def send_feedback(
    target: ServiceTarget,
    place: tuple[str, int],
    vote: FeedbackVote,
    comment: str | None,
    output: OutputFormat,
) -> None:
    """Judge the reply of a turn; `place` is its session and number."""
    session, turn = place
    done = await send_command(target, operations.record_feedback(session, turn, vote, comment))
    words = {"up": "voted up", "down": "voted down", "none": "without a vote"}
    line = Text("✓ ", GOOD).append(f"turn {turn} is {words[vote]}", "default")
    print_answer(done, line.append(f"  event {done.sequence}", MUTED), output)


async def send_redaction(
    target: ServiceTarget,
    session: str,
    turn: int,
    reason: str,
    replacement: str | None,
    output: OutputFormat,
) -> None:
    """Redact the reply of a turn and print the event that records it."""
    done = await send_command(target, operations.redact_reply(session, turn, reason, replacement))
    line = Text("✓ ", GOOD).append(f"the reply of turn {turn} is redacted", "default")
    print_answer(done, line.append(f"  event {done.sequence}", MUTED), output)
