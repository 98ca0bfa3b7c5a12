"""The loader of everything that a prompt is assembled from; workers and previews share it.

`PromptInputLoader` loads what `assemble` takes: the session state with the turns that the call can
reach, the inputs of the turn, the segments, and the texts. A hypothetical turn brings its own text
and inputs, and the log is not asked for them.

The inputs of an open turn are read from the event that submitted it. Segments are read from the
library once for each new call, so the next call sees an edit. A retry of the same call takes the
segments that its record names, so that it gets the same prompt whatever the library holds by then.

When the library is unreachable, the cached state is used and marked as stale. A segment that still
cannot be read refuses the turn where it is required, and is left out and reported elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import structlog
from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt, Refused, Unavailable
from turnlog.events.model.manifest import Manifest, SegmentOmission
from turnlog.events.model.turn_events import TurnQueued, TurnSubmitted
from turnlog.projections.blueprint.schema.history_specs import HistoryViewSpec
from turnlog.projections.library.segment_library import SegmentLibrary
from turnlog.projections.library.segment_selection import (
    CallSegments,
    SegmentRequest,
    SegmentSelection,
    SelectedSegment,
    select_segments,
)
from turnlog.projections.prompt.assemble import (
    PlannedPrompt,
    UnfilledPrompt,
    assemble,
    fill_prompt,
    find_missing_turns,
    plan_prompt,
)
from turnlog.projections.prompt.assembly_inputs import (
    AssembledPrompt,
    PromptCall,
    PromptNeeds,
    PromptTexts,
    choose_assembler,
)
from turnlog.projections.prompt.history.history_window import HistoryWindow
from turnlog.projections.prompt.history.memory_access import (
    MemoryAccess,
    MemoryMessage,
    format_memory_messages,
)
from turnlog.projections.prompt.hypothetical_turn import HypotheticalTurn
from turnlog.projections.prompt.request_dialect import PLAIN_DIALECT
from turnlog.projections.prompt.sources.parent_inputs import collect_turn_inputs
from turnlog.projections.prompt.sources.segment_layers import (
    list_locales,
    list_segment_requests,
    list_segments,
    restore_segments,
)
from turnlog.projections.prompt.sources.session_material import PhaseVisibility, SessionMaterial
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import TextRef
from turnlog.projections.structured_output.output_requests import find_output_request
from turnlog.services.caches.text_cache import TextReader
from turnlog.services.model_facts.model_dialects import ModelDialects
from turnlog.services.model_facts.response_formats import ResponseFormats
from turnlog.services.segments.segment_service import SegmentService
from turnlog.services.sessions.command_handler import CommandHandler

_log = structlog.get_logger("turnlog.segments")


@dataclass(frozen=True, slots=True)
class SegmentFetcher:
    """Fetches the segments of calls; one for each process."""

    segment_service: SegmentService
    texts: TextReader
    timeout: float = 2.0
    """Seconds that the library may take before its cached state is used."""

    async def fetch_segments(
        self,
        tenant: str,
        session: str,
        requests: Iterable[SegmentRequest],
        locale_order: Sequence[str],
        at_time: str | None = None,
    ) -> CallSegments:
        """Return the segments of each selection, in the first locale of the order that has any.

        With `at_time`, an RFC 3339 time, they are those of that time. Raises `Refused` with
        `segments-unavailable` when a required segment cannot be read.
        """
        unique_requests = tuple(dict.fromkeys(requests))
        library, stale = (
            await self._load_library_state(tenant, at_time)
            if unique_requests
            else (SegmentLibrary(tenant=tenant), False)
        )
        if library is None:
            return _log_omitted_segments(_omit_all_segments(unique_requests))
        chosen = {
            each: select_segments(library, each, locale_order, session) for each in unique_requests
        }
        texts = await self._load_texts(tenant, chosen.values())
        segments, omitted = (
            dict[SegmentRequest, tuple[SelectedSegment, ...]](),
            list[SegmentOmission](),
        )
        for each, found in chosen.items():
            segments[each] = tuple(_read_chosen_segments(each, found, texts, omitted))
        return _log_omitted_segments(CallSegments(segments, tuple(omitted), stale))

    async def _load_library_state(
        self, tenant: str, at_time: str | None
    ) -> tuple[SegmentLibrary | None, bool]:
        """Return the library's state, or else the cached one, and whether it may be stale."""
        if at_time is not None:
            return await self.segment_service.load_state_at(tenant, at_time), False
        try:
            async with asyncio.timeout(self.timeout):
                return await self.segment_service.load_state(tenant), False
        except (Unavailable, TimeoutError):
            return self.segment_service.get_cached_state(tenant), True

    async def _load_texts(
        self, tenant: str, chosen: Iterable[SegmentSelection]
    ) -> Mapping[Digest, str | Exception]:
        digests = {each.version.text.digest for some in chosen for each in some.choices}
        cached = {digest: self.texts.blob_texts.get((tenant, digest)) for digest in digests}
        missing = [digest for digest, text in cached.items() if text is None]
        read = await asyncio.gather(*(self._load_text(tenant, digest) for digest in missing))
        found = {digest: text for digest, text in cached.items() if text is not None}
        return {**found, **dict(zip(missing, read, strict=True))}

    async def _load_text(self, tenant: str, digest: Digest) -> str | Exception:
        try:
            return (await self.texts.read_blobs(tenant, (digest,)))[digest]
        except (Unavailable, Corrupt) as error:
            return error


def _omit_all_segments(selections: Sequence[SegmentRequest]) -> CallSegments:
    reason = "the library is unreachable and nothing of it is cached"
    for each in selections:
        if each.required:
            raise _create_unavailable_error(each, reason)
    omitted = tuple(
        SegmentOmission(scope=each.scope, ref=each.ref, reason=reason) for each in selections
    )
    return CallSegments(dict.fromkeys(selections, ()), omitted, stale=True)


def _read_chosen_segments(
    request: SegmentRequest,
    chosen: SegmentSelection,
    texts: Mapping[Digest, str | Exception],
    omitted: list[SegmentOmission],
) -> Iterator[SelectedSegment]:
    """Yield the chosen segments whose text was read; record the others as omitted."""
    omitted += chosen.omitted
    for choice in chosen.choices:
        text = texts[choice.version.text.digest]
        if isinstance(text, str):
            yield SelectedSegment(choice.build_source(), text)
        elif request.required:
            raise _create_unavailable_error(request, f"segment {choice.segment.id}: {text}")
        else:
            omitted.append(choice.build_omission(str(text)))


def _create_unavailable_error(request: SegmentRequest, reason: str) -> Refused:
    return Refused(
        "segments-unavailable",
        reason,
        field="/".join(filter(None, (request.scope, request.ref))),
        fix="send the turn again; `turnlog doctor` says what is missing",
    )


def _log_omitted_segments(gathered: CallSegments) -> CallSegments:
    for each in gathered.omitted:
        _log.warning(
            "segment-omitted",
            scope=each.scope,
            ref=each.ref,
            segment=each.segment,
            reason=each.reason,
        )
    return gathered


@dataclass(frozen=True, slots=True)
class PromptInputs:
    """Everything that the prompt of one call is assembled from: its plan and the texts."""

    unfilled: UnfilledPrompt
    texts: PromptTexts

    def assemble_prompt(self) -> AssembledPrompt:
        """Assemble the prompt; raises what `assemble` raises."""
        return assemble(self.unfilled, self.texts)

    def fill_prompt(self) -> PlannedPrompt:
        """Fill the prompt without fitting it to its budget; raises what `fill_prompt` raises."""
        return fill_prompt(self.unfilled, self.texts)


@dataclass(frozen=True, slots=True)
class UnrecordedInputs:
    """What a preview assumes: neither the log nor the blob store has any of it."""

    turn: HypotheticalTurn | None = None
    blobs: Mapping[Digest, str] = field(default_factory=dict[Digest, str])
    """Prompt files that the session has not pinned yet."""

    @property
    def texts(self) -> Mapping[TextRef, str]:
        """The texts of the hypothetical turn."""
        return self.turn.texts if self.turn else dict[TextRef, str]()

    def remove_from(self, needs: PromptNeeds) -> PromptNeeds:
        """Return the needs without what is here."""
        return replace(
            needs,
            blobs=tuple(digest for digest in needs.blobs if digest not in self.blobs),
            text_refs=tuple(ref for ref in needs.text_refs if ref not in self.texts),
        )

    def add_to(self, texts: PromptTexts) -> PromptTexts:
        """Return fetched texts together with those that are here."""
        blobs, by_ref = {**texts.blobs, **self.blobs}, {**texts.by_ref, **self.texts}
        return replace(texts, blobs=blobs, by_ref=by_ref)


NOTHING_UNRECORDED: Final = UnrecordedInputs()


@dataclass(frozen=True, slots=True)
class PromptInputLoader:
    """Loads the inputs of prompts; one for each process."""

    command_handler: CommandHandler
    segment_fetcher: SegmentFetcher
    response_formats: ResponseFormats = field(default_factory=ResponseFormats)
    dialects: ModelDialects = field(default_factory=ModelDialects)

    async def find_context_tokens(self, model: str) -> int | None:
        """Return what a model takes by a file of dialects; None if none says so."""
        return (await self.dialects.find_request_dialect(model)).context_tokens

    async def load_new_call(
        self,
        material: SessionMaterial,
        state: SessionState,
        call: PromptCall,
        unrecorded: UnrecordedInputs = NOTHING_UNRECORDED,
        *,
        at_call_time: bool = False,
    ) -> PromptInputs:
        """Load the inputs of a call that has no record, with the library's current segments.

        With `at_call_time` the segments are those of the call's own time. Raises `Refused` with
        `segments-unavailable` when a required segment cannot be read.
        """
        turn = unrecorded.turn
        spec = material.blueprint.calls[call.kind]
        dialect = await self.dialects.find_request_dialect(call.model)
        call = replace(
            call,
            inputs=turn.inputs if turn else await load_turn_inputs(self.command_handler, state),
            output_request=await self.response_formats.choose_request(spec, call.model),
            dialect=dialect,
        )
        if requests := list_segment_requests(material, state, call):
            segments = await self.segment_fetcher.fetch_segments(
                tenant=state.tenant,
                session=state.drawn or state.session,
                requests=requests,
                locale_order=list_locales(material, state, call.inputs),
                at_time=call.at if at_call_time else None,
            )
            call = replace(call, gathered=segments)
        return await self._load_texts(material, state, call, unrecorded)

    async def load_recorded_call(
        self, material: SessionMaterial, state: SessionState, call: PromptCall, manifest: Manifest
    ) -> PromptInputs:
        """Load the inputs of a recorded call.

        The clock, the segments, the dialect and the way to ask for the form of the answer are its
        manifest's.
        """
        inputs, assembler = (
            await load_turn_inputs(self.command_handler, state),
            choose_assembler(manifest.assembler),
        )
        output_request = find_output_request(manifest)
        call = replace(
            call,
            at=manifest.at,
            inputs=inputs,
            assembler=assembler,
            output_request=output_request,
            dialect=manifest.dialect or PLAIN_DIALECT,
        )
        digests = (segment.digest for segment in list_segments(manifest))
        blobs = await self.command_handler.texts.read_blobs(state.tenant, digests)
        requests = list_segment_requests(material, state, call)
        call = replace(call, gathered=restore_segments(requests, manifest, blobs))
        return await self._load_texts(material, state, call, NOTHING_UNRECORDED)

    async def _load_texts(
        self,
        material: SessionMaterial,
        state: SessionState,
        call: PromptCall,
        unrecorded: UnrecordedInputs,
    ) -> PromptInputs:
        if missing := find_missing_turns(material, state, call):
            base = unrecorded.turn.base_sequence if unrecorded.turn else None
            state = await self.command_handler.load_older_turns(
                state, base, every_turn=missing == "every"
            )
        unfilled = plan_prompt(material, state, call)
        texts = await self.command_handler.texts.fetch_texts(
            state.tenant, unrecorded.remove_from(unfilled.needs)
        )
        return PromptInputs(unfilled, unrecorded.add_to(texts))


async def load_turn_inputs(
    command_handler: CommandHandler, state: SessionState
) -> Mapping[str, JsonValue]:
    """Return the inputs of the open turn, and those of the parent's turn that it is given."""
    inputs_ref = state.open.submission.inputs if state.open else None
    if inputs_ref is None:
        return {}
    (recorded,) = await command_handler.log.read_events_at(state.tenant, [inputs_ref.place])
    if not isinstance(recorded.event, TurnSubmitted | TurnQueued):
        raise Corrupt(f"event {recorded.sequence}", "it submits no turn")
    digests = [each.digest for each in recorded.event.parent_inputs]
    blobs = await command_handler.texts.read_blobs(state.tenant, digests)
    return collect_turn_inputs(recorded.event, blobs)


async def load_memory_messages(
    command_handler: CommandHandler,
    state: SessionState,
    recall: MemoryAccess,
    visibility: PhaseVisibility,
) -> tuple[MemoryMessage, ...]:
    """Return the messages of a session's memory that the reader may see, oldest first."""
    window = HistoryWindow(view=HistoryViewSpec(), visibility=visibility, access=recall)
    if window.has_reachable_runs(state):
        every_turn = window.needs_every_turn(state)
        state = await command_handler.load_older_turns(state, every_turn=every_turn)
    selected = window.select_turns(state)
    texts = await command_handler.texts.read_texts(state.tenant, selected.list_refs())
    return format_memory_messages(recall, selected.turns, texts)
