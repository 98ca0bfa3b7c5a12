"""Rebuilds the inputs of `assemble` for every recorded call of a session.

`SessionReplay` folds a session from its first event. Just before each event that fixed a prompt,
the state is the one that the prompt was assembled from; later redactions, exclusions and erasures
have no effect on it. The module is independent of the services' loader of prompt inputs on purpose:
it is the second way to a prompt. It compares no digests; the caller who assembles the prompt does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from pydantic import JsonValue

from turnlog.events.content import Digest, PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.model.call_events import AttemptEnded, CallCompleted, ContextAssembled
from turnlog.events.model.manifest import CachePrefix, Manifest, StoredTextSource
from turnlog.events.model.prompt_events import PromptsSnapshotted
from turnlog.events.model.retrieval_events import KnowledgeRetrieved
from turnlog.events.model.session_events import BlueprintMoved, SessionOpened
from turnlog.events.model.tool_events import ToolReturned, ToolsSnapshotted
from turnlog.events.model.turn_events import TurnCompleted, TurnQueued, TurnSubmitted
from turnlog.projections.audit.record.event_queries import filter_by_type
from turnlog.projections.prompt.assemble import find_missing_turns
from turnlog.projections.prompt.assembly_inputs import (
    EarlierCall,
    PromptCall,
    PromptTexts,
    choose_assembler,
)
from turnlog.projections.prompt.request_dialect import PLAIN_DIALECT
from turnlog.projections.prompt.sources.parent_inputs import collect_turn_inputs
from turnlog.projections.prompt.sources.segment_layers import (
    list_segment_requests,
    restore_segments,
)
from turnlog.projections.prompt.sources.session_material import (
    InstalledExtensions,
    MaterialPins,
    SessionMaterial,
    build_material,
    get_pins,
)
from turnlog.projections.session.evolve import evolve, fold, fold_unbounded
from turnlog.projections.session.pinned_prompts import list_pinned_files
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import TextRef
from turnlog.projections.session.tool_disclosure import list_tool_texts
from turnlog.projections.structured_output.output_requests import find_output_request


@dataclass(frozen=True, slots=True, eq=False)
class RecordedTexts(Mapping[TextRef, str]):
    """The texts of a session by the event field they are stored in, each read once.

    Raises `Corrupt` for a text that is no longer there.
    """

    events: Sequence[RecordedEvent]
    """The events of the session so far, in order and without a gap."""
    _cache: dict[TextRef, str] = field(default_factory=dict[TextRef, str])

    def __getitem__(self, ref: TextRef) -> str:
        text = self._cache.get(ref)
        if text is None:
            text = self._cache[ref] = self._read_text(ref)
        return text

    def __iter__(self) -> Iterator[TextRef]:
        return iter(self._cache)

    def __len__(self) -> int:
        return len(self._cache)

    def get_event(self, sequence: int) -> RecordedEvent:
        """Return an event by its sequence; raise `Corrupt` if there is none."""
        place = sequence - self.events[0].sequence
        if not 0 <= place < len(self.events) or self.events[place].sequence != sequence:
            raise Corrupt(f"event {sequence}", "it is not among the events of the session")
        return self.events[place]

    def _read_text(self, ref: TextRef) -> str:
        content: object = self.get_event(ref.sequence).event
        for name in ref.field.split("."):
            content = getattr(content, name, None)
        text = content.text if isinstance(content, PlainText) else content
        if not isinstance(text, str):
            raise Corrupt(f"event {ref.sequence}", f"its {ref.field} is no longer readable")
        return text


MAX_MATERIALS: Final = 64
"""Maximum number of cached materials; sessions close together in the log share few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCallInputs:
    """A recorded call with everything that `assemble` was given for it.

    `assemble(plan_prompt(material, state, call_request), texts)` returns its prompt again.
    """

    recorded: RecordedEvent
    """The event that fixed the prompt."""
    call: ContextAssembled
    """The payload of that event."""
    state: SessionState
    """The session state at the manifest's sequence."""
    material: SessionMaterial
    call_request: PromptCall
    texts: PromptTexts


BLOB_NAMING_TYPES: Final = (
    *(SessionOpened, BlueprintMoved, PromptsSnapshotted, TurnSubmitted, TurnQueued),
    *(ToolsSnapshotted, ToolReturned, KnowledgeRetrieved, ContextAssembled),
)
"""All event types that name blobs."""


def collect_blob_digests(events: Iterable[RecordedEvent]) -> tuple[Digest, ...]:
    """Return the digest of every blob that replaying and reading back these events needs."""
    return tuple(
        dict.fromkeys(
            chain.from_iterable(map(list_event_blobs, filter_by_type(events, *BLOB_NAMING_TYPES)))
        )
    )


def list_event_blobs(recorded: RecordedEvent) -> Iterable[Digest]:
    """Return the digests of the blobs that one event names, possibly with repeats."""
    match recorded.event:
        case SessionOpened() | BlueprintMoved() as made:
            return MaterialPins(made.blueprint.digest, made.cartridge, made.memory).digests
        case PromptsSnapshotted() as snapshot:
            pinned = list_pinned_files(snapshot).values()
            return (file.digest for files in pinned for file in files.values())
        case (
            TurnSubmitted(overrides=overrides, parent_inputs=handed)
            | TurnQueued(overrides=overrides, parent_inputs=handed)
        ):
            return chain((each.digest for each in overrides), (each.digest for each in handed))
        case ToolsSnapshotted() as pinned:
            return list_tool_texts(pinned)
        case ToolReturned(result=result):
            return (result,) if result else ()
        case KnowledgeRetrieved() as retrieved:
            return (each.digest for each in retrieved.taken)
        case ContextAssembled(manifest=manifest):
            return _list_manifest_blobs(manifest)
        case _:
            return ()


MEDIA_NAMING_TYPES: Final = (
    TurnSubmitted,
    TurnQueued,
    ToolReturned,
    TurnCompleted,
    CallCompleted,
    AttemptEnded,
)
"""All event types that name pictures, recordings, files and results larger than a message."""


def collect_media_digests(events: Iterable[RecordedEvent]) -> Mapping[Digest, int]:
    """Return the digests of all media that events name, with the sequence of the first of them."""
    named: dict[Digest, int] = {}
    for recorded in filter_by_type(events, *MEDIA_NAMING_TYPES):
        match recorded.event:
            case (
                TurnSubmitted(parts=parts)
                | TurnQueued(parts=parts)
                | TurnCompleted(parts=parts)
                | CallCompleted(parts=parts)
                | AttemptEnded(parts=parts)
            ):
                found = [each.digest for each in parts]
            case ToolReturned(parts=parts, whole=whole):
                found = [each.digest for each in (*parts, whole) if each]
            case _:
                found = []
        for digest in found:
            named.setdefault(digest, recorded.sequence)
    return named


def _list_manifest_blobs(manifest: Manifest) -> Iterable[Digest]:
    sources = (part.source for part in manifest.parts)
    return (each.digest for each in sources if isinstance(each, StoredTextSource))


def rebuild_call_request(
    material: SessionMaterial,
    state: SessionState,
    call: ContextAssembled,
    inputs: Mapping[str, JsonValue],
    blobs: Mapping[Digest, str],
) -> PromptCall:
    """Rebuild the request for a call from its record."""
    kind, model, at = call.manifest.kind, call.model, call.manifest.at
    assembler = choose_assembler(call.manifest.assembler)
    output_request = find_output_request(call.manifest)
    bare = PromptCall(
        kind=kind,
        model=model,
        at=at,
        inputs=inputs,
        assembler=assembler,
        output_request=output_request,
        dialect=call.manifest.dialect or PLAIN_DIALECT,
    )
    requests = list_segment_requests(material, state, bare)
    segments = restore_segments(requests, call.manifest, blobs)
    return replace(bare, gathered=segments)


@dataclass(slots=True, kw_only=True)
class SessionReplay:
    """Replays one session event by event; `apply_event` adds the next event."""

    blobs: Mapping[Digest, str]
    installed: InstalledExtensions
    state: SessionState | None = None
    events: list[RecordedEvent] = field(default_factory=list[RecordedEvent])
    """The events applied so far."""
    materials: dict[MaterialPins, SessionMaterial] = field(
        default_factory=dict[MaterialPins, SessionMaterial]
    )
    """Material by its pins; sessions that are replayed together share the cache."""
    without_texts: bool = False
    """Whether call inputs come without texts, for callers that change the call and load texts
    later.
    """
    _whole_state: SessionState | None = None
    _recorded_texts: RecordedTexts = field(init=False)

    def __post_init__(self) -> None:
        self._recorded_texts = RecordedTexts(self.events)

    def apply_event(self, recorded: RecordedEvent) -> None:
        """Apply the next event to the state."""
        self.state = evolve(self.state, recorded)
        self.events.append(recorded)

    def rebuild_inputs(self, recorded: RecordedEvent) -> RecordedCallInputs | None:
        """Return the inputs of the call if the next event fixes a prompt, otherwise None.

        Raises `Corrupt` if something that the call used is no longer there.
        """
        match recorded.event:
            case ContextAssembled() as call:
                return self._build_inputs(recorded, call)
            case _:
                return None

    def _build_inputs(self, recorded: RecordedEvent, call: ContextAssembled) -> RecordedCallInputs:
        state = self.state
        if state is None or state.head.sequence != call.manifest.sequence:
            detail = f"it was not assembled from event {call.manifest.sequence}"
            raise Corrupt(f"event {recorded.sequence}", detail)
        material = self._load_material(get_pins(state))
        call_request = rebuild_call_request(
            material=material,
            state=state,
            call=call,
            inputs=self._read_turn_inputs(state),
            blobs=self.blobs,
        )
        if self.without_texts:
            return RecordedCallInputs(
                recorded=recorded,
                call=call,
                state=state,
                material=material,
                call_request=call_request,
                texts=PromptTexts(),
            )
        if find_missing_turns(material, state, call_request):
            state = self.get_whole_state()
        return RecordedCallInputs(
            recorded=recorded,
            call=call,
            state=state,
            material=material,
            call_request=call_request,
            texts=self.collect_texts(state, call_request, call.manifest.prefix),
        )

    def _load_material(self, pins: MaterialPins) -> SessionMaterial:
        if pins not in self.materials:
            while len(self.materials) >= MAX_MATERIALS:
                del self.materials[next(iter(self.materials))]
            self.materials[pins] = build_material(pins, self.blobs, self.installed)
        return self.materials[pins]

    def get_whole_state(self) -> SessionState:
        """Return the state so far with every turn kept individually."""
        if self._whole_state is None:
            self._whole_state = fold_unbounded(self.events)
        else:
            folded_count = self._whole_state.head.sequence + 1 - self.events[0].sequence
            self._whole_state = fold(self.events[folded_count:], self._whole_state)
        if self._whole_state is None:
            raise Corrupt("event 1", "it does not open a session")
        return self._whole_state

    def _read_turn_inputs(self, state: SessionState) -> Mapping[str, JsonValue]:
        inputs_ref = state.open.submission.inputs if state.open else None
        if inputs_ref is None:
            return {}
        event = self._recorded_texts.get_event(inputs_ref.sequence).event
        if not isinstance(event, TurnSubmitted | TurnQueued):
            raise Corrupt(f"event {inputs_ref.sequence}", "it submits no turn")
        return collect_turn_inputs(event, self.blobs)

    def collect_texts(
        self, state: SessionState, call_request: PromptCall, prefix: CachePrefix | None = None
    ) -> PromptTexts:
        """Return the texts a call may refer to: those of the events so far, and the blobs.

        `prefix` is what is recorded of the call, and stands where the earlier one is erased since.
        """
        return PromptTexts(
            self.blobs,
            self._recorded_texts,
            self._find_earlier(state.called.get(call_request.kind), prefix),
        )

    def _find_earlier(
        self, stream_sequence: int | None, prefix: CachePrefix | None
    ) -> EarlierCall | None:
        if stream_sequence is None:
            return None
        at = bisect_left(self.events, stream_sequence, key=lambda each: each.stream_sequence)
        event = self.events[at].event if at < len(self.events) else None
        if not isinstance(event, ContextAssembled):
            raise Corrupt(f"stream sequence {stream_sequence}", "it is not the context of a call")
        return EarlierCall(event.call, event.manifest, prefix)
