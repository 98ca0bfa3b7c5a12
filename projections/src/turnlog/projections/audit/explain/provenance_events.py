"""Provenance events: the events that a text in a prompt, and its inclusion, follow from.

They are found by the manifest's entry for a part: its source, the values filled into it, and its
condition. Such an event is one of the session or of the library. Tools are disclosed in full after
the event that pinned them, requested their schemas or purged memory, and by name only after the
first answer of a turn that had seen them in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, assert_never

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import CallCompleted
from turnlog.events.model.child_events import ChildSettled
from turnlog.events.model.manifest import (
    BlobSource,
    BlueprintTextSource,
    EventTextSource,
    HistorySource,
    KnowledgeSource,
    ParentInputSource,
    PromptPart,
    ResolutionSource,
    SegmentSource,
)
from turnlog.events.model.memory_events import MemoryPurged
from turnlog.events.model.prompt_events import PromptsSnapshotted
from turnlog.events.model.redaction_events import ReplyRedacted, is_of_ended_turn
from turnlog.events.model.retrieval_events import KnowledgeRetrieved
from turnlog.events.model.segment_events import SegmentsAdded, SegmentsEdited
from turnlog.events.model.session_events import BlueprintMoved, SessionOpened
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    SchemasRequested,
    ToolCalled,
    ToolReturned,
    ToolsSnapshotted,
)
from turnlog.events.model.turn_events import ChoiceRecorded, TurnCompleted, TurnResolved
from turnlog.projections.audit.explain.call_snapshot import CallSnapshot
from turnlog.projections.audit.explain.redaction_notes import (
    NOTE_KINDS,
    iterate_note_carriers,
    iterate_noted_redactions,
)
from turnlog.projections.audit.explain.turn_milestones import TurnMilestones
from turnlog.projections.audit.record.partial_log import PartialLog
from turnlog.projections.prompt.assembly_inputs import parse_provider
from turnlog.projections.prompt.history.excluded_turns import OUT_OF_REACH, PURGED, SUMMARISED
from turnlog.projections.prompt.sources.segment_layers import TIER_RULE
from turnlog.projections.prompt.sources.session_material import HIDDEN_PHASE
from turnlog.projections.prompt.sources.tool_sources import FULL_TEXT_RULE, NAMES_RULE
from turnlog.projections.session.pinned_prompts import ANY_PROVIDER, list_pinned_files
from turnlog.projections.session.tool_disclosure import find_disclosure_reason, list_tool_texts


def is_disclosure_rule(rule: str | None) -> bool:
    """Return whether a part is included or left out by the tool disclosure."""
    return rule in {NAMES_RULE, FULL_TEXT_RULE} or (rule or "").startswith("full ")


def find_disclosure_event(side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the event behind the current tool disclosure, if there is one."""
    disclosing_event = next(
        (each for each in reversed(side.log_before_call.events) if _is_disclosing(each, side)), None
    )
    if disclosing_event is None:
        return
    if find_disclosure_reason(side.state):
        yield disclosing_event
    else:
        yield from _find_disclosure_end(disclosing_event, side)


def _is_disclosing(recorded: RecordedEvent, side: CallSnapshot) -> bool:
    match recorded.event:
        case ToolsSnapshotted(profile=profile) | SchemasRequested(profile=profile):
            return profile == side.state.profile
        case MemoryPurged():
            return True
        case _:
            return False


def _find_disclosure_end(
    disclosing_event: RecordedEvent, side: CallSnapshot
) -> Iterator[RecordedEvent]:
    """Yield the first answer of a turn that had full tool descriptions from its start."""
    for recorded in side.log_before_call.iterate_from(disclosing_event.sequence):
        if answered_turn := _find_answered_turn(recorded):
            milestones = side.turns.get(answered_turn)
            begun = milestones.opening_events[-1].sequence if milestones else 0
            if begun > disclosing_event.sequence or isinstance(
                disclosing_event.event, ToolsSnapshotted
            ):
                yield recorded
                return


RUN_RULES: Final = frozenset({OUT_OF_REACH, HIDDEN_PHASE, PURGED, SUMMARISED})
"""Rules that leave out all turns of a run by one event, however many they are."""


def find_text_events(part: PromptPart, side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the events that contain a part's text, or pinned it."""
    match part.source:
        case None:
            pass
        case HistorySource() if not part.is_included:
            pass
        case HistorySource(first=first, last=last):
            turns = map(side.turns.get, range(first, last + 1))
            said = (each for turn in turns for each in find_turn_events(turn, side))
            # What replaces a text of a turn comes after the turns behind it.
            yield from sorted(said, key=lambda each: each.sequence)
        case BlobSource(user=str()):
            yield side.milestones.begun
        case BlobSource(digest=digest):
            yield from _find_pinning_events(part.layer, digest, side)
        case SegmentSource() as segment:
            yield from find_segment_edit(segment, side)
        case (
            EventTextSource(sequence=sequence)
            | ResolutionSource(resolution=sequence)
            | KnowledgeSource(retrieved=sequence)
            | ParentInputSource(handed=sequence)
        ):
            found = side.log_before_call.find_event(sequence)
            yield from (*find_tool_request(found, side.log_before_call), found) if found else ()
        case BlueprintTextSource():
            yield side.definition_event
        case _ as never:
            assert_never(never)


def find_tool_request(returned: RecordedEvent, log: PartialLog) -> Iterator[RecordedEvent]:
    """Yield the event that requested the tool whose result is given."""
    result = returned.event
    if isinstance(result, ToolReturned):
        earlier = log.iterate_back(returned.sequence - 1)
        yield from islice((each for each in earlier if _is_request_of(result, each)), 1)


def _is_request_of(result: ToolReturned, recorded: RecordedEvent) -> bool:
    match recorded.event:
        case ToolCalled(call=call, id=id):
            return (call, id) == (result.call, result.id)
        case _:
            return False


def find_turn_events(
    milestones: TurnMilestones | None, side: CallSnapshot
) -> Iterator[RecordedEvent]:
    """Yield the events that contain the messages of a turn."""
    for ref in milestones.messages if milestones else ():
        found = side.log_before_call.find_event(ref.sequence)
        yield from (found,) if found else ()


def is_left_out_as_run(part: PromptPart) -> bool:
    """Return whether a run was left out by one event, whatever the state of its turns."""
    return not part.is_included and part.rule in RUN_RULES


def _find_pinning_events(layer: str, digest: Digest, side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the events that pinned a file, or the one that pinned a text about tools."""
    if is_tool_text(digest, side):
        yield from find_tools_pinning(side)
        return
    for recorded in side.log_before_call.events:
        match recorded.event:
            case PromptsSnapshotted() as snapshot:
                pinned = list_pinned_files(snapshot).values()
                if any(layer in files and files[layer].digest == digest for files in pinned):
                    yield recorded
            case _:
                pass


def find_pinned_tools(side: CallSnapshot) -> ToolsSnapshotted | None:
    """Return the list of tools that the profile of a call is pinned to."""
    return side.state.tools.get(side.state.profile)


def is_tool_text(digest: Digest, side: CallSnapshot) -> bool:
    """Return whether a blob is a text about the pinned tools of a call's profile."""
    pinned = find_pinned_tools(side)
    return pinned is not None and digest in list_tool_texts(pinned)


def find_tools_pinning(side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the event that pinned the tools of a call's profile, the latest of several."""
    for recorded in reversed(side.log_before_call.events):
        match recorded.event:
            case ToolsSnapshotted(profile=profile) if profile == side.state.profile:
                yield recorded
                return
            case _:
                pass


def find_pinning_event(side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the event that pinned the prompt files for the call's provider."""
    provider = parse_provider(side.call.model)
    for_any: RecordedEvent | None = None
    for recorded in reversed(side.log_before_call.events):
        match recorded.event:
            case PromptsSnapshotted() as snapshot:
                pinned = list_pinned_files(snapshot)
                if provider in pinned:
                    yield recorded
                    return
                for_any = recorded if ANY_PROVIDER in pinned else for_any
            case BlueprintMoved() if for_any:
                break
            case _:
                pass
    yield from (for_any,) if for_any else ()


def find_attribute_event(name: str, side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the event that set an attribute: the opening, or the move that changed it."""
    found: RecordedEvent | None = None
    value: JsonValue = None
    for recorded in side.log_before_call.events:
        match recorded.event:
            case SessionOpened(attributes=named) | BlueprintMoved(attributes=named):
                if found is None or named.get(name) != value:
                    found, value = recorded, named.get(name)
            case _:
                pass
    yield from (found,) if found else ()


def find_segment_edit(segment: SegmentSource, side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the library event that introduced this version of a segment."""
    for edit in side.edits:
        match edit.event:
            case SegmentsAdded(segments=added):
                named = ((new.id, new.version) for new in added)
                if (segment.segment, segment.version) in named:
                    yield edit.recorded
            case SegmentsEdited(versions=versions):
                version_key = (segment.segment, segment.version)
                if any((new.id, new.version) == version_key for new in versions):
                    yield edit.recorded
            case _:
                pass


_RESUMING_TYPES: Final = (ApprovalDecided, ChildSettled)
"""The events from which the deadline of a turn counts again."""


def find_value_events(path: str, side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the events that set the value at a blueprint path."""
    match path.split("."):
        case ["session", "phase"]:
            yield from (side.phase_event,) if side.phase_event else ()
        case ["session", "choices"]:
            events = side.log_before_call.events
            yield from (each for each in events if isinstance(each.event, ChoiceRecorded))
        case ["turn", "time"]:
            begun = side.milestones.begun
            after = side.log_before_call.iterate_from(begun.sequence)
            resumed = [each for each in after if isinstance(each.event, _RESUMING_TYPES)]
            yield resumed[-1] if resumed else begun
        case ["inputs", *_]:
            yield side.milestones.begun
        case ["attributes", *name]:
            yield from find_attribute_event(".".join(name), side)
        case _:
            yield side.definition_event


def get_path_value(path: str, side: CallSnapshot) -> JsonValue:
    """Return the value at a blueprint path, as far as it is known without the blueprint."""
    state = side.state
    match path.split(".", 1):
        case ["session", "phase"]:
            return state.phase
        case ["session", "choices"]:
            return [made.label for made in state.choices if made.label]
        case ["turn", "time"]:
            return state.open.released_at if state.open else None
        case ["attributes", name]:
            return state.attributes.get(name)
        case ["cartridge", _]:
            return state.cartridge
        case ["inputs", name]:
            return side.submission.inputs.get(name)
        case _:
            return None


def find_resolutions(side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the resolver's results for the turn of the call."""
    for recorded in side.log_before_call.iterate_from(side.milestones.begun.sequence):
        match recorded.event:
            case TurnResolved(turn=turn) if turn == side.call.turn:
                yield recorded
            case _:
                pass


def find_turn_retrievals(side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield what the turn of the call had retrieved before it."""
    for recorded in side.log_before_call.iterate_from(side.milestones.begun.sequence):
        match recorded.event:
            case KnowledgeRetrieved(turn=turn) if turn == side.call.turn:
                yield recorded
            case _:
                pass


def find_retrieval_event(name: str, side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the retrieval of this name in the turn of the call."""
    for recorded in find_turn_retrievals(side):
        match recorded.event:
            case KnowledgeRetrieved(retrieval=made) if made == name:
                yield recorded
            case _:
                pass


def find_latest_answer(side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the latest answer within the call's turn before the call, if there is one."""
    answered: RecordedEvent | None = None
    for recorded in side.log_before_call.iterate_from(side.milestones.begun.sequence):
        match recorded.event:
            case CallCompleted(turn=turn) if turn == side.call.turn:
                answered = recorded
            case _:
                pass
    yield from (answered,) if answered else ()


def find_condition_events(part: PromptPart, side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the events by which a part's condition is met or not met."""
    match (part.rule or "").split():
        case ["when", "reply_redacted" | "text_redacted"]:
            yield from _find_note_events(part, side)
        case ["when", "first_turn"]:
            yield from _find_first_turn_events(side)
        case ["when", "step_failed"]:
            yield from _find_failed_tools(side)
        case ["when", "phase", _]:
            yield from (side.phase_event,) if side.phase_event else ()
        case ["when", "confident" | "unsure", name] | ["adapt", name, *_]:
            yield from find_retrieval_event(name, side)
        case ["unavailable", *_] | ["nothing", "found"]:
            yield from find_turn_retrievals(side)
        case ["when", "attribute" | "context", _]:
            yield side.definition_event
        case [rule] if rule == TIER_RULE:
            yield side.milestones.begun
        case _ if is_disclosure_rule(part.rule):
            yield from find_disclosure_event(side)
        case _:
            pass


def _find_failed_tools(side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the failed or refused tools of the turn's latest answer."""
    failed: list[RecordedEvent] = []
    for recorded in side.log_before_call.iterate_from(side.milestones.begun.sequence):
        match recorded.event:
            case CallCompleted(turn=turn) if turn == side.call.turn:
                failed = []
            case ToolReturned(turn=turn, outcome="failed" | "refused") if turn == side.call.turn:
                failed.append(recorded)
            case _:
                pass
    yield from failed


def _find_note_events(part: PromptPart, side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the redaction that a note is about, or the calls that carried the note already."""
    kind = NOTE_KINDS[part.rule or ""]
    withheld = next(iterate_noted_redactions(kind, side.log_before_call), None)
    note = kind.get_note(side.state)
    if withheld and part.is_included:
        yield withheld
    elif withheld and not (note and note.told is None):
        yield from iterate_note_carriers(kind, withheld, side.log_before_call)


def _find_first_turn_events(side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield what decides whether this is the first turn: its own input, or the first answer."""
    if isinstance(side.submission.inputs.get("first_turn"), bool):
        yield side.milestones.begun
    elif side.state.completed:
        onward = side.log_before_call.iterate_from(side.first_sequence)
        yield from islice(filter(_find_answered_turn, onward), 1)


def _find_answered_turn(recorded: RecordedEvent) -> int | None:
    """Return the turn that an event completes; None if it completes none."""
    match recorded.event:
        case TurnCompleted(turn=turn):
            return turn
        case ReplyRedacted(turn=turn) as event if not is_of_ended_turn(event):
            return turn
        case _:
            return None
