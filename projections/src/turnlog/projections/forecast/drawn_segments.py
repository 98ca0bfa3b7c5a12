"""The segments of a hypothetical call: those that recorded calls got from the library.

The drawn turn's call comes first, then the session's latest one. Where neither had what the call
requests, as with a turn of a session of another world, a segment of the same scope is as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from turnlog.events.content import Digest
from turnlog.events.model.manifest import Manifest, SegmentSource
from turnlog.projections.library.segment_selection import (
    CallSegments,
    SegmentRequest,
    SelectedSegment,
)
from turnlog.projections.prompt.assembly_inputs import PromptCall
from turnlog.projections.prompt.sources.segment_layers import (
    list_segment_requests,
    list_segments,
)
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.state import SessionState


def gather_segments(
    material: SessionMaterial,
    state: SessionState,
    call: PromptCall,
    manifests: Iterable[Manifest],
    blobs: Mapping[Digest, str],
) -> CallSegments:
    """Return the segments of a call as the manifests have them, the first one preferred."""
    requests = list_segment_requests(material, state, call)
    if not requests:
        return CallSegments({})
    recorded = [
        [each for each in list_segments(manifest) if each.digest in blobs] for manifest in manifests
    ]
    return CallSegments(
        {
            request: tuple(
                SelectedSegment(each, blobs[each.digest]) for each in _choose(request, recorded)
            )
            for request in requests
        }
    )


def _choose(request: SegmentRequest, recorded: list[list[SegmentSource]]) -> list[SegmentSource]:
    of_scope = [[each for each in sources if each.scope == request.scope] for sources in recorded]
    for sources in of_scope:
        if found := [each for each in sources if each.ref == request.ref]:
            return found
    for sources in of_scope:
        if sources:
            return [each for each in sources if each.ref == sources[0].ref]
    return []
