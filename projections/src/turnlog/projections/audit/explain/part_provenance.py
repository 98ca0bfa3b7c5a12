"""Part provenance: the events that a part of a prompt, and its condition, come from.

The manifest says where a text is stored; provenance adds who put it there and when, and what
removed it. Only events are read: those of the session up to the call, and those of the library.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.manifest import BlueprintTextSource, EventTextSource, PromptPart
from turnlog.events.model.retrieval_events import CandidateVote
from turnlog.events.model.tool_events import ToolReturned
from turnlog.events.registry import format_event_name
from turnlog.projections.audit.explain.call_snapshot import CallSnapshot
from turnlog.projections.audit.explain.exclusion_provenance import find_exclusions
from turnlog.projections.audit.explain.provenance_events import (
    find_condition_events,
    find_text_events,
    find_value_events,
)
from turnlog.projections.audit.explain.retrieval_provenance import (
    find_part_candidate,
    find_part_query,
    find_part_query_call,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRef:
    """A reference to an event, as people read it."""

    session: str
    """The event's session; `segments` for an event of the library."""
    sequence: int
    event: str
    """Name of the event: `turn-submitted`."""
    time: str
    """When it was decided, RFC 3339."""
    actor: str
    """On whose behalf it was recorded."""


@dataclass(frozen=True, slots=True)
class FilledValue:
    """A value that was filled into a text of the blueprint."""

    path: str
    """`cartridge.safety.intensity_ceiling`, `session.phase`."""
    by: tuple[EventRef, ...]
    """The events that set the value; empty if the value was empty."""


@dataclass(frozen=True, slots=True)
class RemovedTurns:
    """Turns that a run leaves out, or includes with another reply."""

    first: int
    last: int
    rule: str
    """`excluded`, `redacted`, `max_turns`, `drop_oldest_pairs` ..."""
    by: EventRef
    """The event that did it; the call's own if the assembly did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartProvenance:
    """A part with the events it comes from."""

    part: PromptPart
    by: tuple[EventRef, ...]
    """The events that contain the text or pinned it."""
    filled: tuple[FilledValue, ...]
    """The values filled into the text, for a text of the blueprint."""
    because: tuple[EventRef, ...]
    """The events that decided the part's condition; for a ladder step, the call's own."""
    removed: tuple[RemovedTurns, ...]
    """For a run of history: its turns that were left out or redacted."""
    tool: str | None = None
    """For a tool result: `shop_look, t1 of call 3.2`."""
    query: str | None = None
    """For a retrieved entry: the query nearest to it, where its retrieval had several or a model
    wrote it.
    """
    query_call: str | None = None
    """For a retrieved entry: the call that wrote this query; None if no model did."""
    feedback: int | None = None
    """For a retrieved entry: the sum of the votes on it when it was retrieved."""
    votes: tuple[CandidateVote, ...] = ()
    """The newest of these votes, newest first."""
    more_votes: int = 0
    """The number of older votes, which are in the sum and not named."""


def build_event_ref(recorded: RecordedEvent) -> EventRef:
    """Build the reference to an event."""
    envelope = recorded.envelope
    return EventRef(
        session=recorded.session,
        sequence=recorded.sequence,
        event=format_event_name(envelope.type),
        time=envelope.time,
        actor=envelope.actor,
    )


def trace_part(part: PromptPart, side: CallSnapshot) -> PartProvenance:
    """Return the provenance of one part of a call."""
    of = part.source.of if isinstance(part.source, BlueprintTextSource) else ()
    exclusions = find_exclusions(part, side)
    candidate = find_part_candidate(part, side)
    return PartProvenance(
        part=part,
        by=tuple(map(build_event_ref, find_text_events(part, side))),
        filled=tuple(
            FilledValue(path, tuple(map(build_event_ref, find_value_events(path, side))))
            for path in of
        ),
        because=tuple(map(build_event_ref, find_condition_events(part, side)))
        or _find_trimming_call(part, side),
        removed=tuple(
            RemovedTurns(each.first, each.last, each.rule, build_event_ref(each.by))
            for each in exclusions
        ),
        tool=_describe_tool(part, side),
        query=find_part_query(part, side),
        query_call=find_part_query_call(part, side),
        feedback=candidate.feedback if candidate else None,
        votes=candidate.votes if candidate else (),
        more_votes=candidate.more_votes if candidate else 0,
    )


def _describe_tool(part: PromptPart, side: CallSnapshot) -> str | None:
    source = part.source
    found = (
        side.log_before_call.find_event(source.sequence)
        if isinstance(source, EventTextSource)
        else None
    )
    match found.event if found else None:
        case ToolReturned(tool=tool, id=id, call=call):
            return f"{tool}, {id} of call {call}"
        case _:
            return None


def _find_trimming_call(part: PromptPart, side: CallSnapshot) -> tuple[EventRef, ...]:
    """Return the call itself if a step of its ladder shortened a part or left it out."""
    steps = {step.step for step in side.manifest.steps}
    word = (part.rule or "").partition(" ")[0]
    return (build_event_ref(side.recorded),) if word in steps else ()
