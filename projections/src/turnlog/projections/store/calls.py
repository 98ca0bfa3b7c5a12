"""The rows that follow from an event: a pure function from an event to row changes.

It sets values, never differences, and does not query the database, so the same events always give
the same rows. Events without rows only change the session's last sequence. Figures that were never
measured stay null, which means unknown and not zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnlog.events.call import AttemptEnded, AttemptStarted, CallCompleted, ContextAssembled
from turnlog.events.envelope import Recorded
from turnlog.events.manifest import FromTurns, Part
from turnlog.projections.store.changes import Change, Patch, Put, Values
from turnlog.projections.store.tables import ATTEMPTS, CALLS, WINDOW_PARTS
from turnlog.projections.store.texts import json_of
from turnlog.projections.window.savings import savings


def started(recorded: Recorded, event: AttemptStarted) -> Change:
    """Return the row of a new attempt."""
    key = (recorded.tenant, recorded.session, event.turn, event.attempt)
    at = recorded.envelope.time
    values: Values = {
        "call": event.call,
        "worker": event.worker,
        "started_at": at,
        "copied": recorded.envelope.copyof is not None,
    }
    return Put(ATTEMPTS, key, values)


def ended(recorded: Recorded, event: AttemptEnded) -> Change:
    """Return the end of an attempt; the worker's own event replaces what others recorded of it."""
    usage, cost, timings = event.usage, event.cost, event.timings
    values: Values = {
        "ended_at": recorded.envelope.time,
        "outcome": event.outcome,
        "known": usage.known,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "micro_dollars": cost.micro_dollars,
        "price": cost.price,
        "first_token_ms": timings.first_token if timings else None,
        "total_ms": timings.total if timings else None,
        "fault": event.fault.code if event.fault else None,
    }
    return Patch(ATTEMPTS, (recorded.tenant, recorded.session, event.turn, event.attempt), values)


def assembled(recorded: Recorded, event: ContextAssembled) -> Iterator[Change]:
    """Yield the row of a call, and one ledger row for each component of its prompt."""
    manifest = event.manifest
    saved = savings(manifest)
    key = (recorded.tenant, recorded.session, event.call)
    values: Values = {
        "turn": event.turn,
        "sequence": recorded.sequence,
        "at": recorded.envelope.time,
        "kind": manifest.kind,
        "model": event.model,
        "supersedes": event.supersedes,
        "digest": manifest.digest,
        "budget": manifest.budget,
        "tokens": manifest.tokens,
        "counter": manifest.counter.name,
        "parts": len(manifest.parts),
        "profile": event.profile,
        "optimizations": json_of(dict(saved)),
        "savings": sum(saved.values()),
    }
    yield Put(CALLS, key, values)
    components: dict[str, list[Part]] = {}
    for part in manifest.parts:
        components.setdefault(part.component, []).append(part)
    for place, (component, parts) in enumerate(components.items()):
        yield Put(WINDOW_PARTS, (*key, component), _ledger(event.turn, place, parts))


def _ledger(turn: int, place: int, parts: Sequence[Part]) -> Values:
    count = tokens = characters = turns = cut_turns = 0
    for part in parts:
        if part.kept:
            count += 1
            tokens += part.tokens
            characters += part.characters
            turns += _turns(part)
        if part.treatment == "dropped":
            cut_turns += _turns(part)
    return {
        "turn": turn,
        "place": place,
        "parts": count,
        "tokens": tokens,
        "characters": characters,
        "turns": turns,
        "cut_turns": cut_turns,
    }


def _turns(part: Part) -> int:
    run = part.source
    return run.last - run.first + 1 if isinstance(run, FromTurns) else 0


def answered(recorded: Recorded, event: CallCompleted) -> Change:
    """Return the change that records which attempt answered a call, and its length."""
    values: Values = {
        "attempt": event.attempt,
        "finish": event.finish,
        "characters": event.characters,
    }
    return Patch(CALLS, (recorded.tenant, recorded.session, event.call), values)
