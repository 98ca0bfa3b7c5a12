"""Questions about tools that wait for a person, at the person's terminal.

All of the arguments are shown, since a person answers for what they do. Keys that were typed before
the question are dropped: they answer something else.
"""

from __future__ import annotations

import json
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

from rich.console import Console, Group
from rich.text import Text

from turnlog.client.sse_events import ApprovalEvent
from turnlog.events.model.tool_events import ApprovalDecision
from turnlog.projections.blueprint.bounded_json import InvalidJson, parse_json
from turnlog.services.cli.views.session_view import LABEL_WIDTH
from turnlog.services.cli.views.text_format import escape_controls, format_one_line
from turnlog.services.cli.views.theme import MUTED, WARNING

_QUESTION: Final = "approve? (y)es, (n)o, (l)eave it: "

_WORDS: Final[dict[str, ApprovalDecision | None]] = {
    "y": "approve",
    "yes": "approve",
    "n": "refuse",
    "no": "refuse",
    "l": None,
    "leave": None,
}


@dataclass(frozen=True, slots=True)
class PersonDecision:
    """What a person decided about a tool."""

    decision: ApprovalDecision | None
    """None if another person decides, or the same person later."""
    reason: str = ""


def request_decision(event: ApprovalEvent, console: Console) -> PersonDecision:
    """Show a tool that waits, and ask about it; Ctrl-D leaves it.

    Raises `KeyboardInterrupt` at Ctrl-C.
    """
    console.print(render_request(event))
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    try:
        word = ""
        while word not in _WORDS:
            word = input(_QUESTION).strip().lower()
        decision = _WORDS[word]
        reason = input("why? (the model reads it; may be empty): ") if decision == "refuse" else ""
    except EOFError:
        console.print()
        return PersonDecision(None)
    return PersonDecision(decision, reason.strip())


def render_request(event: ApprovalEvent) -> Group:
    """Render a tool that waits, with all of its arguments."""
    head = Text(f" {'approve':>{LABEL_WIDTH}} ", f"bold {WARNING}").append("▌ ", WARNING)
    head.append(format_one_line(event.tool), "bold")
    head.append(f"  approval {event.approval}, until {event.deadline[:19]}Z", MUTED)
    margin = Text(" " * (LABEL_WIDTH + 2)).append("▌ ", WARNING)
    lines = (margin + Text(line) for line in _format_arguments(event.arguments))
    return Group(head, *lines)


def describe_decision(event: ApprovalEvent) -> Text:
    """Describe how a person decides elsewhere."""
    command = f"turnlog approve {event.session} {event.turn} {event.approval}"
    return Text(f"decide with `{command}` (--refuse --reason TEXT), or on the page", MUTED)


def _format_arguments(arguments: str) -> Iterator[str]:
    """Yield the lines of the arguments: one for each, or more where a text has more."""
    try:
        read: object = parse_json(arguments)
    except InvalidJson:
        read = arguments
    if not isinstance(read, dict):
        yield from _format_value(read)
        return
    for name, value in cast("dict[str, object]", read).items():
        first, *rest = _format_value(value)
        yield f"{escape_controls(name)}: {first}"
        yield from (f"  {line}" for line in rest)


def _format_value(value: object) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return [escape_controls(line) for line in text.split("\n")]
