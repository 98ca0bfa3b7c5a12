"""What a turn used, from the events of its session alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from turnlog.events.content import get_plain_text
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import AttemptEnded, ContextAssembled, find_attempt_end
from turnlog.events.model.child_events import ChildRequested, ChildSettled
from turnlog.events.model.tool_events import ApprovalDecided, ApprovalRequested
from turnlog.events.model.turn_events import TurnQueued, TurnSubmitted, find_turn_end
from turnlog.projections.quotas.turn_bound import TurnBound

_CHARACTERS_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnUse:
    """The state and the usage of a turn with a quota reservation."""

    is_submitted: bool
    """Whether the turn is in the log under its reservation."""
    is_settled: bool
    used: TurnBound
    """What its attempts used; an attempt that reported nothing counts with its prompt and text."""
    is_waiting: bool = False
    """Whether it waits for a person or for its children."""
    lost_at: datetime | None = None
    """When the latest attempt was given up that may still report what it used; None without one."""


def collect_turn_use(events: Iterable[RecordedEvent], turn: int, reservation: str) -> TurnUse:
    """Return the state and the usage of a turn, from the events after its reservation.

    A later report of an attempt replaces an earlier one, as its worker knows more than another.
    """
    is_submitted = is_settled = False
    prompts: dict[str, int] = {}
    attempts: dict[tuple[str, int], AttemptEnded] = {}
    ended_at: dict[tuple[str, int], str] = {}
    waits = set[tuple[str, str]]()
    for recorded in events:
        event = recorded.event
        ended = find_attempt_end(event)
        if ended is not None and ended.turn == turn:
            attempts[ended.call, ended.attempt] = ended
            ended_at[ended.call, ended.attempt] = recorded.envelope.time
        match event:
            case TurnSubmitted() | TurnQueued() if event.turn == turn:
                is_submitted = event.reservation is not None and event.reservation.id == reservation
            case ContextAssembled() if event.turn == turn:
                prompts[event.call] = event.manifest.tokens
            case ApprovalRequested() | ChildRequested() if event.turn == turn:
                waits.add((event.call, event.id))
            case ApprovalDecided() | ChildSettled() if event.turn == turn:
                waits.discard((event.call, event.id))
            case _:
                end = find_turn_end(event)
                is_settled = is_settled or (end is not None and end.turn == turn)
    uses = [_measure_attempt(each, prompts) for each in attempts.values()]
    lost = [
        datetime.fromisoformat(ended_at[key])
        for key, each in attempts.items()
        if each.outcome == "lost"
    ]
    used = TurnBound(sum(use.input_tokens for use in uses), sum(use.output_tokens for use in uses))
    return TurnUse(
        is_submitted=is_submitted,
        is_settled=is_settled,
        used=used,
        is_waiting=bool(waits) and not is_settled,
        lost_at=max(lost, default=None),
    )


def _measure_attempt(event: AttemptEnded, prompts: dict[str, int]) -> TurnBound:
    if event.outcome == "unasked":
        return TurnBound()
    usage = event.usage
    prompt = prompts.get(event.call, 0)
    text = get_plain_text(event.partial) or ""
    guess = -(-len(text) // _CHARACTERS_PER_TOKEN)
    if event.outcome == "failed" and usage.input_tokens is None and not text:
        # Providers do not bill a request that they refused or never answered.
        return TurnBound()
    return TurnBound(
        prompt if usage.input_tokens is None else usage.input_tokens,
        guess if usage.output_tokens is None else usage.output_tokens,
    )
