"""A reply shown on a terminal while it is streamed.

A word is held back until it is complete, so that it can be wrapped whole. The layout is that of
`render_labelled_text`, so a streamed reply looks like one that is shown later.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.status import Status
from rich.text import Text

from turnlog.client.sse_events import ApprovalEvent, SseMessage, parse_turn_event
from turnlog.contract.turn_payloads import MediaPartView
from turnlog.services.cli.conversation.approval_questions import describe_decision, render_request
from turnlog.services.cli.views.session_view import LABEL_WIDTH, REPLY_COLOUR, format_part
from turnlog.services.cli.views.text_format import escape_controls, format_one_line
from turnlog.services.cli.views.theme import BAD, MUTED, WARNING

_WORD_PIECES: Final = re.compile(r"\n|[^\S\n]+|\S+")

AskedApproval = tuple[str, int, int]
"""Session, turn and number of an approval."""

_MARGIN_COLUMNS: Final = 5
"""Columns taken by the blanks and the stroke."""


@dataclass
class LabelledTextWriter:
    """Writes one text beside a label."""

    console: Console
    label: str
    colour: str
    width: int
    """Columns of the label."""
    _pending: str = field(default="", init=False)
    _column: int = field(default=-1, init=False)
    """Columns of text on the current line; -1 before the first line."""
    _lines_above: int = field(default=0, init=False)
    """Lines written above the current one."""

    @property
    def has_text(self) -> bool:
        """Whether any text was given since it began."""
        return self._column >= 0 or bool(self._pending)

    def write_text(self, text: str) -> None:
        """Write a piece of text; its last word is held back until it is complete."""
        pieces = _WORD_PIECES.findall(self._pending + text)
        complete_pieces = pieces if not pieces or pieces[-1].isspace() else pieces[:-1]
        self._pending = "".join(pieces[len(complete_pieces) :])
        for piece in complete_pieces:
            self._write_piece(escape_controls(piece))

    def end_text(self, note: str = "", colour: str = "") -> None:
        """Write the held-back text and a remark if there is one, and end the line."""
        self._write_piece(escape_controls(self._pending))
        self._pending = ""
        if note:
            self._write_piece(" " if self._column > 0 else "")
            self._write_raw(format_one_line(note), colour)
        self.console.print()

    def erase_text(self) -> None:
        """Erase the text on a terminal; elsewhere the written text stays."""
        self._pending = ""
        if self._column < 0:
            return
        if not self.console.is_terminal:
            self.end_text()
            return
        line = ((ControlType.ERASE_IN_LINE, 2), (ControlType.CARRIAGE_RETURN,))
        up = ((ControlType.CURSOR_UP, 1), *line)
        self.console.control(Control(*line, *(up * self._lines_above)))
        self._column, self._lines_above = -1, 0

    def _write_piece(self, piece: str) -> None:
        if self._column < 0:
            self._write_label(self.label)
        if piece == "\n":
            self._start_line()
            return
        max_column = self.console.width - self.width - _MARGIN_COLUMNS
        if self._column + cell_len(piece) <= max_column:
            self._write_raw(piece, "")
            return
        for place, line in enumerate(chop_cells(piece.lstrip(), max_column)):
            if place or self._column:
                self._start_line()
            self._write_raw(line, "")

    def _start_line(self) -> None:
        self.console.print()
        self._lines_above += 1
        self._write_label("")

    def _write_label(self, label: str) -> None:
        self._write_raw(f" {label.rjust(self.width)} ", f"bold {self.colour}")
        self._write_raw("▌ ", self.colour)
        self._column = 0

    def _write_raw(self, text: str, style: str) -> None:
        self.console.print(Text(text, style), end="", soft_wrap=True)
        self._column += cell_len(text)


@dataclass
class ReplyDisplay:
    """Shows the stream of one turn on a terminal."""

    console: Console
    asked: set[AskedApproval] | None = None
    """The approvals that the person was asked about; None without a terminal."""
    _writer: LabelledTextWriter = field(init=False)
    _thoughts: LabelledTextWriter = field(init=False)
    """What the model reasons, where the stream has it."""
    _children: dict[tuple[str, int], str] = field(
        default_factory=dict[tuple[str, int], str], init=False
    )
    """What the running children of the turn do, a line for each."""
    _parts: list[str] = field(default_factory=list[str], init=False)
    """The pictures, recordings and files of the reply, a line for each."""

    def __post_init__(self) -> None:
        self._writer = self._create_writer()
        self._thoughts = self._create_thoughts()

    async def show_turn(self, frames: AsyncGenerator[SseMessage]) -> ApprovalEvent | None:
        """Show a turn until its end, or until a person has to be asked, and return about what."""
        waiting = self.console.status(Text(_describe_progress({}), MUTED), spinner="dots")
        waiting.start()
        async with aclosing(frames):
            async for frame in frames:
                data = json.loads(frame.data)
                if frame.name == "progress":
                    waiting.update(Text(_describe_progress(data), MUTED))
                    continue
                if frame.name == "child":
                    self._show_child(waiting, data)
                    continue
                waiting.stop()
                event = parse_turn_event(frame) if frame.name == "approval" else None
                if isinstance(event, ApprovalEvent):
                    if self._must_ask(event):
                        return event
                    self._show_approval(event)
                    continue
                self._handle_frame(frame.name, data)
        return None

    def _show_child(self, waiting: Status, child: Mapping[str, Any]) -> None:
        """Show a running child beside the spinner, and one that ended on a line above it.

        The line of a text that has begun is left as it is.
        """
        if self._writer.has_text:
            return
        key = (child["session"], child["turn"])
        if child["doing"] == "ended":
            self._children.pop(key, None)
            self.console.print(Text(_describe_child(child), MUTED))
        else:
            self._children[key] = _describe_child(child)
        lines = self._children.values() or (_describe_progress({}),)
        waiting.update(Text("\n".join(lines), MUTED))

    def _must_ask(self, event: ApprovalEvent) -> bool:
        asked = (event.session, event.turn, event.approval)
        if event.decision is not None or self.asked is None or asked in self.asked:
            return False
        self.asked.add(asked)
        return True

    def _handle_frame(self, name: str, data: Mapping[str, Any]) -> None:
        if name != "reasoning" and self._thoughts.has_text:
            self._thoughts.end_text()
            self._thoughts = self._create_thoughts()
        match name:
            case "reasoning":
                self._thoughts.write_text(data["text"])
            case "token":
                self._writer.write_text(data["text"])
            case "part":
                self._parts.append(format_part(MediaPartView.model_validate(data)))
            case "attempt-reset" if self._writer.has_text:
                self._writer.end_text("what was said so far is void", WARNING)
                self._writer = self._create_writer()
            case "done":
                self._writer.end_text(_describe_ending(data), WARNING)
                for line in self._parts:
                    self.console.print(Text(line, MUTED))
            case "redact":
                self._replace_reply(data["replacement"])
            case "failed":
                self._writer.end_text(f"failed: {data['code']}", BAD)
            case "cancelled":
                self._writer.end_text(data["reason"], WARNING)
            case _:
                pass

    def _show_approval(self, event: ApprovalEvent) -> None:
        if event.decision is not None:
            word = "approved" if event.decision == "approve" else "refused"
            line = f"{format_one_line(event.tool)} is {word} (approval {event.approval})"
            self.console.print(Text(line, MUTED))
        elif self.asked is None:
            self.console.print(render_request(event))
            self.console.print(describe_decision(event), soft_wrap=True)

    def _replace_reply(self, replacement: str) -> None:
        self._writer.erase_text()
        instead = LabelledTextWriter(self.console, "withheld", BAD, LABEL_WIDTH)
        instead.write_text(replacement)
        instead.end_text()

    def _create_writer(self) -> LabelledTextWriter:
        return LabelledTextWriter(self.console, "reply", REPLY_COLOUR, LABEL_WIDTH)

    def _create_thoughts(self) -> LabelledTextWriter:
        return LabelledTextWriter(self.console, "reasons", MUTED, LABEL_WIDTH)


def _describe_progress(progress: Mapping[str, Any]) -> str:
    match progress.get("doing"):
        case "summarise":
            return "summing up what was said before"
        case "query":
            return "writing queries"
        case "plan":
            return "planning"
        case "act":
            return "choosing tools"
        case "think":
            return "the model thinks"
        case "tool":
            return f"running {format_one_line(progress['tool'])}"
        case _:
            return "waiting for the first word"


def _describe_child(child: Mapping[str, Any]) -> str:
    """Return the line of a child: its profile and what it does."""
    match child["doing"]:
        case "tool":
            doing = f"running {child['tool']}"
        case "text":
            doing = f"writing, {child['characters']} characters"
        case "ended":
            doing = child["outcome"]
        case _:
            doing = "at work"
    return format_one_line(f"{child['profile']}: {doing}")


def _describe_ending(done: Mapping[str, Any]) -> str:
    """Return a remark on an unusual end: a truncated reply, or the next phase."""
    if following := done.get("next_phase"):
        return f"phase {following} begins"
    finish = done.get("finish", "stop")
    return "" if finish == "stop" else f"ended by {finish}"
