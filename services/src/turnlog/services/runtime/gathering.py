from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import JsonValue

from turnlog.events.errors import Corrupt
from turnlog.events.log.ports import Log
from turnlog.events.manifest import Manifest
from turnlog.events.turn import TurnQueued, TurnSubmitted
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.assemble import segments_wanted
from turnlog.projections.window.call import Call
from turnlog.projections.window.material import Material
from turnlog.projections.window.segments import locales, recalled, segments_in
from turnlog.services.runtime.segments import Segments
from turnlog.services.runtime.texts import TextReader


@dataclass(frozen=True, slots=True)
class Gathering:
    """Adds turn inputs and segments to calls; one for each process."""

    log: Log
    texts: TextReader
    segments: Segments

    async def fresh(
        self, material: Material, state: SessionState, call: Call, *, then: bool = False
    ) -> Call:
        """Return a call with its turn inputs and with the library's current segments.

        With `at_call_time` the segments are those of the call's own time. Raises `Refused` with
        `segments-unavailable` when a required segment cannot be read.
        """
        call = replace(call, inputs=await self.inputs(state))
        wanted = segments_wanted(material, state, call)
        if not wanted:
            return call
        chain = locales(material, state, call.inputs)
        moment = call.at if then else None
        drawn = state.drawn or state.session
        given = await self.segments.gather(state.tenant, drawn, wanted, chain, moment)
        return replace(call, gathered=given)

    async def again(
        self, material: Material, state: SessionState, call: Call, manifest: Manifest
    ) -> Call:
        """Return a call with the inputs and segments that its manifest records."""
        call = replace(call, at=manifest.at, inputs=await self.inputs(state))
        digests = (segment.digest for segment in segments_in(manifest))
        blobs = await self.texts.read_blobs(state.tenant, digests)
        wanted = segments_wanted(material, state, call)
        return replace(call, gathered=recalled(wanted, manifest, blobs))

    async def inputs(self, state: SessionState) -> Mapping[str, JsonValue]:
        """Return the inputs that the open turn was submitted with."""
        brought = state.open.inputs if state.open else None
        if brought is None:
            return {}
        (recorded,) = await self.log.at(state.tenant, [brought.place])
        if not isinstance(recorded.event, TurnSubmitted | TurnQueued):
            raise Corrupt(f"event {recorded.sequence}", "it submits no turn")
        return recorded.event.inputs
