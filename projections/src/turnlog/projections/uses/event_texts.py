"""The texts of a session that prompts can include, and what each of them stands for.

A summary stands for the turns that it covers, and a text that is carried into a phase for the
phase that was left. So a prompt with such a text has what was said there, in other words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from turnlog.events.model.call_events import CallCompleted
from turnlog.events.model.memory_events import HistorySummarised
from turnlog.events.model.redaction_events import ReplyRedacted, TextRedacted
from turnlog.events.model.session_events import BlueprintMoved, PhaseEntered, SessionOpened
from turnlog.events.model.tool_events import StepPlanned, ToolCalled, ToolReturned
from turnlog.events.model.turn_events import (
    ChoiceRecorded,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnQueued,
    TurnResolved,
    TurnSubmitted,
)
from turnlog.projections.uses.prompt_sources import shorten_name

EventTextKind = Literal[
    "turn", "work", "result", "summary", "phase", "carried", "choice", "blueprint", "cartridge"
]
"""What a text is: the question or the reply of a turn, something that led to the reply, the result
of a tool, a summary, a text carried into a phase (or a phase entered without one), a choice, or
what the session was pinned to, whose texts prompts include literally.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventText:
    """A text that an event holds or pins; a summary of several runs of turns has one for each."""

    sequence: int
    """Sequence of the event."""
    kind: EventTextKind
    first: int = 0
    """The turn it belongs to, or the first turn that it covers; 0 for none."""
    last: int = 0
    """The last of these turns."""
    call: str | None = None
    """The call that wrote it, or whose answer asked for it; None if there was none."""
    request: str | None = None
    """The provider's id of the tool request that it is, or the result of; None for other texts."""
    label: str | None = None
    """The label of a choice, or the digest of a pinned blueprint or cartridge; otherwise None."""
    quoted: int | None = None
    """Sequence of the event whose text it quotes; None if it quotes none."""


def list_event_texts(sequence: int, event: object) -> Iterator[EventText]:
    """Yield the texts of an event."""
    match event:
        case TurnSubmitted() | TurnQueued() | ReplyRedacted() | TextRedacted():
            turn = event.turn
            yield EventText(sequence=sequence, kind="turn", first=turn, last=turn)
        case TurnFailed(turn=turn) | TurnCancelled(turn=turn) if event.cut_reply is not None:
            yield EventText(sequence=sequence, kind="turn", first=turn, last=turn)
        case TurnCompleted(turn=turn, call=call):
            yield EventText(sequence=sequence, kind="turn", first=turn, last=turn, call=call)
        case CallCompleted(turn=turn, call=call):
            yield EventText(sequence=sequence, kind="work", first=turn, last=turn, call=call)
        case ToolCalled() | ToolReturned():
            yield _build_tool_text(sequence, event)
        case TurnResolved(turn=turn):
            yield EventText(sequence=sequence, kind="work", first=turn, last=turn)
        case StepPlanned(turn=turn, loop=loop):
            yield EventText(sequence=sequence, kind="work", first=turn, last=turn, quoted=loop)
        case HistorySummarised(call=call, turns=ranges):
            for each in ranges:
                yield EventText(
                    sequence=sequence, kind="summary", first=each.first, last=each.last, call=call
                )
        case PhaseEntered(carried=carried):
            yield EventText(sequence=sequence, kind="carried" if carried else "phase")
        case ChoiceRecorded(label=str(label)):
            yield EventText(sequence=sequence, kind="choice", label=shorten_name(label))
        case SessionOpened() | BlueprintMoved():
            yield from _list_pinned_texts(sequence, event)
        case _:
            return


def _build_tool_text(sequence: int, event: ToolCalled | ToolReturned) -> EventText:
    return EventText(
        sequence=sequence,
        kind="result" if isinstance(event, ToolReturned) else "work",
        first=event.turn,
        last=event.turn,
        call=event.call,
        request=event.id,
    )


def _list_pinned_texts(sequence: int, event: SessionOpened | BlueprintMoved) -> Iterator[EventText]:
    yield EventText(sequence=sequence, kind="blueprint", label=event.blueprint.digest)
    if event.cartridge is not None:
        # Another `first`, since it is the second text of the event.
        yield EventText(sequence=sequence, kind="cartridge", first=1, label=event.cartridge)
