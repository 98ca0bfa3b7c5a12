"""What a prompt needs besides the session state: turn inputs, segments and memory messages.

The inputs of the open turn are read from the event that submitted it. Segments are read from the
library once for each new call, so the next call sees an edit. A retry of the same call takes the
segments that its record names, so that it gets the same prompt whatever the library holds by then.

When the library is unreachable, the cached state is used and marked as stale. A segment that still
cannot be read refuses the turn where it is required, and is left out and reported elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import structlog

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt, Refused, Unavailable
from turnlog.projections.library.choosing import SegmentSelection, select_segments
from turnlog.projections.library.picked import CallSegments, OmittedSegment, SelectedSegment, SegmentRequest
from turnlog.projections.library.shelf import SegmentLibrary
from turnlog.services.runtime.shelves import SegmentService
from turnlog.services.runtime.texts import TextReader

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
        wanted: Iterable[SegmentRequest],
        locale_order: Sequence[str],
        at_time: str | None = None,
    ) -> CallSegments:
        """Return the segments of each selection, in the first locale of the order that has any.

        With `at_time`, an RFC 3339 time, they are those of that time. Raises `Refused` with
        `segments-unavailable` when a required segment cannot be read.
        """
        asked = tuple(dict.fromkeys(wanted))
        shelf, stale = await self._load_library_state(tenant, at_time) if asked else (SegmentLibrary(tenant), False)
        if shelf is None:
            return _log_omitted_segments(_omit_all_segments(asked))
        chosen = {each: select_segments(shelf, each, locale_order, session) for each in asked}
        texts = await self._load_texts(tenant, chosen.values())
        segments, omitted = dict[SegmentRequest, tuple[SelectedSegment, ...]](), list[OmittedSegment]()
        for each, found in chosen.items():
            segments[each] = tuple(_read_chosen_segments(each, found, texts, omitted))
        return _log_omitted_segments(CallSegments(segments, tuple(omitted), stale))

    async def _load_library_state(self, tenant: str, at_time: str | None) -> tuple[SegmentLibrary | None, bool]:
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
        held = {digest: self.texts.blob_texts.get((tenant, digest)) for digest in digests}
        missing = [digest for digest, text in held.items() if text is None]
        read = await asyncio.gather(*(self._load_text(tenant, digest) for digest in missing))
        found = {digest: text for digest, text in held.items() if text is not None}
        return {**found, **dict(zip(missing, read, strict=True))}

    async def _load_text(self, tenant: str, digest: Digest) -> str | Exception:
        try:
            return (await self.texts.read_blobs(tenant, (digest,)))[digest]
        except (Unavailable, Corrupt) as error:
            return error


def _omit_all_segments(selections: Sequence[SegmentRequest]) -> CallSegments:
    reason = "the library cannot be reached, and nothing is known of it"
    for each in selections:
        if each.required:
            raise _create_unavailable_error(each, reason)
    omitted = tuple(OmittedSegment(each.scope, each.ref, None, reason) for each in selections)
    return CallSegments(dict.fromkeys(selections, ()), omitted, stale=True)


def _read_chosen_segments(
    wanted: SegmentRequest,
    chosen: SegmentSelection,
    texts: Mapping[Digest, str | Exception],
    omitted: list[OmittedSegment],
) -> Iterator[SelectedSegment]:
    """Yield the chosen segments whose text was read; record the others as omitted."""
    omitted += chosen.omitted
    for choice in chosen.choices:
        segment, version = choice.segment, choice.version
        text = texts[version.text.digest]
        if isinstance(text, str):
            yield SelectedSegment(
                id=segment.id,
                scope=segment.scope,
                ref=segment.ref,
                locale=segment.locale,
                version=version.version,
                variant=version.variant,
                tier=version.text.tier,
                type=version.text.type,
                priority=version.text.priority,
                digest=version.text.digest,
                text=text,
            )
        elif wanted.required:
            raise _create_unavailable_error(wanted, f"segment {segment.id}: {text}")
        else:
            omitted.append(OmittedSegment(segment.scope, segment.ref, segment.id, str(text)))


def _create_unavailable_error(wanted: SegmentRequest, reason: str) -> Refused:
    return Refused(
        "segments-unavailable",
        reason,
        field="/".join(filter(None, (wanted.scope, wanted.ref))),
        fix="send the turn again; `turnlog doctor` says what is missing",
    )


def _log_omitted_segments(gathered: CallSegments) -> CallSegments:
    """Log a warning for each segment that was left out."""
    for each in gathered.omitted:
        _log.warning(
            "segment-omitted",
            scope=each.scope,
            ref=each.ref,
            segment=each.segment,
            reason=each.reason,
        )
    return gathered
