"""What an erasure reaches, as the stored bytes say it: nothing has to be opened for that.

Each sealed event names the keys that it is under. Those of what follows from several turns are the
keys of all of them, so whatever was made of the words names a key that goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import KeysErased
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.child_events import ChildRequested
from turnlog.events.model.redaction_events import ErasedTurn
from turnlog.events.seals.leaf_sets import LeafRuns, has_common_leaf, parse_leaf_runs
from turnlog.events.seals.sealed_payload import SealedPayload, parse_sealed_header


@dataclass(frozen=True, slots=True)
class ErasureReach:
    """What of a session cannot be opened once some keys are gone."""

    events: tuple[int, ...]
    """Sequences of the events under one of the keys."""
    calls: tuple[str, ...]
    """The calls among them: their prompts had the words, or something that follows from them."""
    turns: tuple[int, ...]
    """The turns of these calls, each once: their replies may repeat the words."""


def find_reach(events: Iterable[RecordedEvent], leaves: str) -> ErasureReach:
    """Return what of a session is under one of these keys, in the form of `sealedof`."""
    runs = parse_leaf_runs(leaves) or {}
    reached = [each for each in events if is_under(each, runs)]
    calls = [each.event for each in reached if isinstance(each.event, ContextAssembled)]
    return ErasureReach(
        events=tuple(each.sequence for each in reached),
        calls=tuple(call.call for call in calls),
        turns=tuple(sorted({call.turn for call in calls})),
    )


def is_under(recorded: RecordedEvent, leaves: LeafRuns) -> bool:
    """Return whether an event is sealed under one of these keys."""
    header = parse_sealed_header(recorded.stored)
    return header is not None and has_common_leaf(parse_leaf_runs(header.leaves) or {}, leaves)


def is_closed(recorded: RecordedEvent) -> bool:
    """Return whether an event is sealed under a key that was removed."""
    stored = recorded.stored
    return isinstance(stored, SealedPayload) and stored.key is None and not stored.fault


def require_prompt_kept(recorded: RecordedEvent, call: ContextAssembled) -> None:
    """Raise `KeysErased` if words of the prompt of a call were erased; `recorded` holds it."""
    if is_closed(recorded):
        raise KeysErased(f"of call {call.call}")


def list_asked_turns(
    events: Iterable[RecordedEvent], turns: Sequence[ErasedTurn]
) -> dict[str, tuple[ErasedTurn, ...]]:
    """Return what is erased in each child session that these turns asked.

    Its task has words of the turn, and its reply is part of what came of the turn.
    """
    parts = {each.turn: "text" if each.of == "text" else "turn" for each in turns}
    found: dict[str, dict[int, ErasedTurn]] = {}
    for event in (each.event for each in events):
        if isinstance(event, ChildRequested) and event.turn in parts:
            of = "text" if parts[event.turn] == "text" else "turn"
            asked = ErasedTurn(turn=event.child_turn, of=of)
            found.setdefault(event.session, {})[event.child_turn] = asked
    return {session: tuple(each.values()) for session, each in found.items()}
