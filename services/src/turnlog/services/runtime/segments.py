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
from turnlog.projections.library.choosing import Chosen, choose
from turnlog.projections.library.picked import Gathered, Omitted, Picked, Wanted
from turnlog.projections.library.shelf import Shelf
from turnlog.services.runtime.shelves import Shelves
from turnlog.services.runtime.texts import TextReader

_log = structlog.get_logger("turnlog.segments")


@dataclass(frozen=True, slots=True)
class Segments:
    """Fetches the segments of calls; one for each process."""

    shelves: Shelves
    texts: TextReader
    patience: float = 2.0
    """Seconds that the library may take before its cached state is used."""

    async def gather(
        self,
        tenant: str,
        session: str,
        wanted: Iterable[Wanted],
        locales: Sequence[str],
        then: str | None = None,
    ) -> Gathered:
        """Return the segments of each selection, in the first locale of the order that has any.

        With `at_time`, an RFC 3339 time, they are those of that time. Raises `Refused` with
        `segments-unavailable` when a required segment cannot be read.
        """
        asked = tuple(dict.fromkeys(wanted))
        shelf, stale = await self._shelf(tenant, then) if asked else (Shelf(tenant), False)
        if shelf is None:
            return _told(_nothing(asked))
        chosen = {each: choose(shelf, each, locales, session) for each in asked}
        texts = await self._texts(tenant, chosen.values())
        segments, omitted = dict[Wanted, tuple[Picked, ...]](), list[Omitted]()
        for each, found in chosen.items():
            segments[each] = tuple(_read(each, found, texts, omitted))
        return _told(Gathered(segments, tuple(omitted), stale))

    async def _shelf(self, tenant: str, then: str | None) -> tuple[Shelf | None, bool]:
        """Return the library's state, or else the cached one, and whether it may be stale."""
        if then is not None:
            return await self.shelves.load_at(tenant, then), False
        try:
            async with asyncio.timeout(self.patience):
                return await self.shelves.load(tenant), False
        except (Unavailable, TimeoutError):
            return self.shelves.held(tenant), True

    async def _texts(
        self, tenant: str, chosen: Iterable[Chosen]
    ) -> Mapping[Digest, str | Exception]:
        digests = {each.version.text.digest for some in chosen for each in some.choices}
        held = {digest: self.texts.stored.get((tenant, digest)) for digest in digests}
        missing = [digest for digest, text in held.items() if text is None]
        read = await asyncio.gather(*(self._text(tenant, digest) for digest in missing))
        found = {digest: text for digest, text in held.items() if text is not None}
        return {**found, **dict(zip(missing, read, strict=True))}

    async def _text(self, tenant: str, digest: Digest) -> str | Exception:
        try:
            return (await self.texts.read_blobs(tenant, (digest,)))[digest]
        except (Unavailable, Corrupt) as error:
            return error


def _nothing(asked: Sequence[Wanted]) -> Gathered:
    reason = "the library cannot be reached, and nothing is known of it"
    for each in asked:
        if each.required:
            raise _unavailable(each, reason)
    omitted = tuple(Omitted(each.scope, each.ref, None, reason) for each in asked)
    return Gathered(dict.fromkeys(asked, ()), omitted, stale=True)


def _read(
    wanted: Wanted,
    chosen: Chosen,
    texts: Mapping[Digest, str | Exception],
    omitted: list[Omitted],
) -> Iterator[Picked]:
    """Yield the chosen segments whose text was read; record the others as omitted."""
    omitted += chosen.omitted
    for choice in chosen.choices:
        segment, version = choice.segment, choice.version
        text = texts[version.text.digest]
        if isinstance(text, str):
            yield Picked(
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
            raise _unavailable(wanted, f"segment {segment.id}: {text}")
        else:
            omitted.append(Omitted(segment.scope, segment.ref, segment.id, str(text)))


def _unavailable(wanted: Wanted, reason: str) -> Refused:
    return Refused(
        "segments-unavailable",
        reason,
        field="/".join(filter(None, (wanted.scope, wanted.ref))),
        fix="send the turn again; `turnlog doctor` says what is missing",
    )


def _told(gathered: Gathered) -> Gathered:
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
