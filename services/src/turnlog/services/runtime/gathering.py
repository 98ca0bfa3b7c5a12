from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import JsonValue

from turnlog.events.errors import Corrupt
from turnlog.events.log.ports import EventLog
from turnlog.events.manifest import Manifest
from turnlog.events.turn import TurnQueued, TurnSubmitted
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.assemble import list_segment_requests
from turnlog.projections.window.call import PromptCall
from turnlog.projections.window.material import SessionMaterial
from turnlog.projections.window.segments import list_locales, restore_segments, list_segments
from turnlog.services.runtime.segments import SegmentFetcher
from turnlog.services.runtime.texts import TextReader


@dataclass(frozen=True, slots=True)
class PromptInputLoader:
    """Adds turn inputs and segments to calls; one for each process."""

    log: EventLog
    texts: TextReader
    segment_fetcher: SegmentFetcher

    async def fill_call(
        self, material: SessionMaterial, state: SessionState, call: PromptCall, *, at_call_time: bool = False
    ) -> PromptCall:
        """Return a call with its turn inputs and with the library's current segments.

        With `at_call_time` the segments are those of the call's own time. Raises `Refused` with
        `segments-unavailable` when a required segment cannot be read.
        """
        call = replace(call, inputs=await self.load_turn_inputs(state))
        wanted = list_segment_requests(material, state, call)
        if not wanted:
            return call
        chain = list_locales(material, state, call.inputs)
        moment = call.at if at_call_time else None
        drawn = state.drawn or state.session
        given = await self.segment_fetcher.fetch_segments(state.tenant, drawn, wanted, chain, moment)
        return replace(call, gathered=given)

    async def restore_call(
        self, material: SessionMaterial, state: SessionState, call: PromptCall, manifest: Manifest
    ) -> PromptCall:
        """Return a call with the inputs and segments that its manifest records."""
        call = replace(call, at=manifest.at, inputs=await self.load_turn_inputs(state))
        digests = (segment.digest for segment in list_segments(manifest))
        blobs = await self.texts.read_blobs(state.tenant, digests)
        wanted = list_segment_requests(material, state, call)
        return replace(call, gathered=restore_segments(wanted, manifest, blobs))

    async def load_turn_inputs(self, state: SessionState) -> Mapping[str, JsonValue]:
        """Return the inputs that the open turn was submitted with."""
        brought = state.open.inputs if state.open else None
        if brought is None:
            return {}
        (recorded,) = await self.log.read_events_at(state.tenant, [brought.place])
        if not isinstance(recorded.event, TurnSubmitted | TurnQueued):
            raise Corrupt(f"event {recorded.sequence}", "it submits no turn")
        return recorded.event.inputs
