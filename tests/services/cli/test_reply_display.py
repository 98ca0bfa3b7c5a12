from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from io import StringIO

import pytest
from pydantic import JsonValue
from rich.console import Console

from turnlog.client.sse_events import SseMessage
from turnlog.services.cli.conversation.reply_display import ReplyDisplay

Said = tuple[str, dict[str, JsonValue]]

HELLO: Said = ("token", {"text": "Hello. "})


async def iterate_frames(*events: Said) -> AsyncGenerator[SseMessage]:
    for name, data in events:
        yield SseMessage(name, json.dumps(data), "1.1.0")


async def render_stream(*events: Said, width: int = 60) -> list[str]:
    console = Console(width=width, file=StringIO(), highlight=False)
    await ReplyDisplay(console).show_turn(iterate_frames(*events))
    file = console.file
    assert isinstance(file, StringIO)
    return [" ".join(line.replace("▌", "").split()) for line in file.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (("done", {"finish": "stop"}), "reply Hello."),
        (("done", {"finish": "length"}), "reply Hello. ended by length"),
        (("done", {"next_phase": "debrief"}), "reply Hello. phase debrief begins"),
        (("done", {"debrief_complete": True}), "reply Hello."),
        (("failed", {"code": "rate_limited"}), "reply Hello. failed: rate_limited"),
        (("cancelled", {"reason": "interrupted"}), "reply Hello. interrupted"),
    ],
)
async def test_reply_display_prints_how_a_reply_ended(end: Said, line: str) -> None:
    assert await render_stream(HELLO, ("something-of-a-later-release", {"a": 1}), end) == [line]


async def test_progress_is_shown_until_the_first_token_of_a_reply() -> None:
    console = Console(width=60, file=StringIO(), force_terminal=True, highlight=False)
    plan: Said = ("progress", {"call": "1.1", "doing": "plan"})
    tool: Said = ("progress", {"call": "1.2", "doing": "tool", "tool": "shop_look"})

    async def slowly() -> AsyncGenerator[SseMessage]:
        async for frame in iterate_frames(plan, tool, HELLO, ("done", {"finish": "stop"})):
            yield frame
            console.print(end="")  # as the spinner's own thread does, ten times a second

    await ReplyDisplay(console).show_turn(slowly())
    file = console.file
    assert isinstance(file, StringIO)
    places = [file.getvalue().find(what) for what in ("planning", "running shop_look", "Hello.")]
    assert -1 < places[0] < places[1] < places[2]


def build_child(profile: str, doing: str, **more: JsonValue) -> Said:
    more |= {"session": f"c-{profile}", "turn": 1, "profile": profile, "doing": doing}
    return "child", more


async def test_children_have_a_line_each_while_they_run_and_when_they_have_ended() -> None:
    events: tuple[Said, ...] = (
        build_child("thinker", "started"),
        build_child("searcher", "tool", tool="shop_look"),
        build_child("thinker", "text", characters=7),
        build_child("searcher", "ended", outcome="failed"),
        build_child("thinker", "ended", outcome="answered"),
        HELLO,
        ("done", {"finish": "stop"}),
    )
    assert await render_stream(*events) == [
        *("searcher: failed", "thinker: answered", "reply Hello.")
    ]
    console = Console(width=60, file=StringIO(), force_terminal=True, highlight=False)

    async def slowly() -> AsyncGenerator[SseMessage]:
        async for frame in iterate_frames(*events):
            yield frame
            console.print(end="")  # as the spinner's own thread does, ten times a second

    await ReplyDisplay(console).show_turn(slowly())
    file = console.file
    assert isinstance(file, StringIO)
    lines = ("thinker: at work", "searcher: running shop_look", "thinker: writing, 7 characters")
    assert [line for line in lines if line not in file.getvalue()] == []


async def test_replacement_text_is_shown_for_a_withheld_reply() -> None:
    redact: Said = ("redact", {"replacement": "(No.)"})
    assert await render_stream(redact) == ["withheld (No.)"]
    assert await render_stream(HELLO, redact) == ["reply Hello.", "withheld (No.)"]


async def test_withheld_reply_is_erased_from_the_terminal() -> None:
    console = Console(width=40, file=StringIO(), force_terminal=True, highlight=False)
    three_lines: dict[str, JsonValue] = {
        "text": "One two three four five six seven eight nine ten eleven twelve. "
    }
    redact: Said = ("redact", {"replacement": "(No.)"})
    await ReplyDisplay(console).show_turn(iterate_frames(("token", three_lines), redact))
    file = console.file
    assert isinstance(file, StringIO)
    assert render_terminal(file.getvalue()) == ["  withheld ▌ (No.)"]


def render_terminal(written: str) -> list[str]:
    """Return what remains on a terminal that supports erasing a line and moving up."""
    lines, row = [""], 0
    for code, text in re.findall(r"\x1b\[([0-9;?]*[A-Za-z])|([\n\r]|[^\n\r\x1b]+)", written):
        if text == "\n":
            row += 1
            lines[row:] = lines[row:] or [""]
        elif text == "\r" or code == "2K":
            lines[row] = ""
        elif code == "1A":
            row -= 1
        else:
            lines[row] += text
    return [line.rstrip() for line in lines if line.strip()]


async def test_text_of_an_abandoned_attempt_is_marked_as_void() -> None:
    again: Said = ("attempt-reset", {"attempt": 2})
    done: Said = ("done", {"finish": "stop"})
    assert await render_stream(HELLO, again, ("token", {"text": "Hi."}), done) == [
        "reply Hello. what was said so far is void",
        "reply Hi.",
    ]


async def test_attempt_reset_without_earlier_text_prints_no_void_mark() -> None:
    again: Said = ("attempt-reset", {"attempt": 2})
    failed: Said = ("failed", {"code": "tools_unreachable"})
    assert await render_stream(again, again, failed) == ["reply failed: tools_unreachable"]


APPROVAL: Said = (
    "approval",
    {
        "session": "s1",
        "turn": 1,
        "approval": 1,
        "call": "1.1",
        "id": "call_7",
        "tool": "shop_pay",
        "arguments": '{"what": "hammer\\u001b[2J\\nand nails", "count": 3, "gift": {"to": "Ada"}}',
        "deadline": "2026-01-01T12:00:00.000000Z",
        "decision": None,
    },
)


async def test_approval_without_a_terminal_prints_the_command_that_decides_it() -> None:
    decided: Said = ("approval", {**APPROVAL[1], "decision": "refuse"})
    shown = await render_stream(APPROVAL, decided, HELLO, ("done", {"finish": "stop"}), width=90)
    assert shown == [
        "approve shop_pay approval 1, until 2026-01-01T12:00:00Z",
        "what: hammer␛[2J",
        "and nails",
        "count: 3",
        'gift: {"to": "Ada"}',
        "decide with `turnlog approve s1 1 1` (--refuse --reason TEXT), or on the page",
        "shop_pay is refused (approval 1)",
        "reply Hello.",
    ]


async def test_approval_of_a_child_session_names_the_command_for_that_session() -> None:
    of_child: Said = ("approval", {**APPROVAL[1], "session": "child-1", "turn": 4})
    shown = await render_stream(of_child, HELLO, ("done", {"finish": "stop"}), width=90)
    assert (
        "decide with `turnlog approve child-1 4 1` (--refuse --reason TEXT), or on the page"
        in shown
    )


async def test_reply_display_requests_each_approval_once() -> None:
    console = Console(width=60, file=StringIO(), highlight=False)
    display = ReplyDisplay(console, asked=set())
    asked = await display.show_turn(iterate_frames(APPROVAL, HELLO))
    assert asked
    assert (asked.approval, asked.cursor) == (1, "1.1.0")
    of_child: Said = ("approval", {**APPROVAL[1], "session": "child-1"})
    assert await display.show_turn(iterate_frames(APPROVAL, of_child, HELLO)) is not None
    ended = iterate_frames(APPROVAL, of_child, HELLO, ("done", {}))
    assert await display.show_turn(ended) is None
