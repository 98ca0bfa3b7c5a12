"""The rows that follow from an event: a pure function from an event to row changes.

It sets values, never differences, and does not query the database, so the same events always give
the same rows. Events without rows only change the session's last sequence. Figures that were never
measured stay null, which means unknown and not zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnlog.events.call import AttemptEnded, AttemptStarted, CallCompleted, ContextAssembled
from turnlog.events.envelope import RecordedEvent
from turnlog.events.manifest import HistorySource, PromptPart
from turnlog.projections.store.changes import RowChange, PatchRow, PutRow, ColumnValues
from turnlog.projections.store.tables import ATTEMPTS, CALLS, WINDOW_PARTS
from turnlog.projections.store.texts import encode_json
from turnlog.projections.window.savings import compute_token_savings


def build_attempt_row(recorded: RecordedEvent, event: AttemptStarted) -> RowChange:
    """Return the row of a new attempt."""
    key = (recorded.tenant, recorded.session, event.turn, event.attempt)
    at = recorded.envelope.time
    values: ColumnValues = {
        "call": event.call,
        "worker": event.worker,
        "started_at": at,
        "copied": recorded.envelope.copyof is not None,
    }
    return PutRow(ATTEMPTS, key, values)


def build_attempt_end(recorded: RecordedEvent, event: AttemptEnded) -> RowChange:
    """Return the end of an attempt; the worker's own event replaces what others recorded of it."""
    usage, cost, timings = event.usage, event.cost, event.timings
    values: ColumnValues = {
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
    return PatchRow(ATTEMPTS, (recorded.tenant, recorded.session, event.turn, event.attempt), values)


def build_call_rows(recorded: RecordedEvent, event: ContextAssembled) -> Iterator[RowChange]:
    """Yield the row of a call, and one ledger row for each component of its prompt."""
    manifest = event.manifest
    saved = compute_token_savings(manifest)
    key = (recorded.tenant, recorded.session, event.call)
    values: ColumnValues = {
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
        "optimizations": encode_json(dict(saved)),
        "savings": sum(saved.values()),
    }
    yield PutRow(CALLS, key, values)
    components: dict[str, list[PromptPart]] = {}
    for part in manifest.parts:
        components.setdefault(part.component, []).append(part)
    for place, (component, parts) in enumerate(components.items()):
        yield PutRow(WINDOW_PARTS, (*key, component), _build_ledger_values(event.turn, place, parts))


def _build_ledger_values(turn: int, place: int, parts: Sequence[PromptPart]) -> ColumnValues:
    count = tokens = characters = turns = cut_turns = 0
    for part in parts:
        if part.is_included:
            count += 1
            tokens += part.tokens
            characters += part.characters
            turns += _count_turns(part)
        if part.treatment == "dropped":
            cut_turns += _count_turns(part)
    return {
        "turn": turn,
        "place": place,
        "parts": count,
        "tokens": tokens,
        "characters": characters,
        "turns": turns,
        "cut_turns": cut_turns,
    }


def _count_turns(part: PromptPart) -> int:
    run = part.source
    return run.last - run.first + 1 if isinstance(run, HistorySource) else 0


def build_call_answer(recorded: RecordedEvent, event: CallCompleted) -> RowChange:
    """Return the change that records which attempt answered a call, and its length."""
    values: ColumnValues = {
        "attempt": event.attempt,
        "finish": event.finish,
        "characters": event.characters,
    }
    return PatchRow(CALLS, (recorded.tenant, recorded.session, event.call), values)
