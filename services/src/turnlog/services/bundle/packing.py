"""A session as a bundle of its own: a zip that is sent while it is made.

The list comes last, since only then all is known that stands in it. Nothing is held but a page of
events, the digests of blobs, and the few blobs that are being sent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import IO, Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from turnlog.events.content import Digest, digest_of
from turnlog.events.envelope import Recorded
from turnlog.projections.audit.bundle import (
    Bundled,
    BundleList,
    Unreadable,
    blob_file,
    session_file,
)
from turnlog.projections.audit.retelling import blobs_named
from turnlog.services.bundle.around import around, maker
from turnlog.services.bundle.drain import Drain
from turnlog.services.bundle.taking import Taken, one_line
from turnlog.services.runtime.aside import aside
from turnlog.services.runtime.pages import Told, Unread

AT_ONCE: Final = 16
"""Blobs that are held at a time."""


@dataclass(slots=True)
class Counted:
    """The events that were sent so far."""

    number: int = 0
    last: bytes = b""
    unread: list[Unreadable] = field(default_factory=list[Unreadable])

    def count(self, page: Sequence[Told]) -> None:
        """Take in one more page."""
        found = (each for each in page if isinstance(each, Unread))
        self.unread += [Unreadable(number=each.number, detail=each.detail) for each in found]
        self.number, self.last = self.number + len(page), page[-1].stored


async def packed(taken: Taken) -> AsyncGenerator[bytes]:
    """Send the zip, piece by piece."""
    drain, named, events = Drain(), dict[Digest, None](), Counted()
    tenant, session = taken.key
    with ZipFile(drain, "w") as archive:
        file = entry(session_file(session))
        with archive.open(file, "w", force_zip64=True) as lines:
            async for page in taken.pages():
                await aside(partial(_write, lines, page))
                events.count(page)
                named |= dict.fromkeys(blobs_named(_known(page)))
                yield drain.taken()
        for digests in _some(tuple(named)):
            blobs = await taken.records.blobs(tenant, digests)
            await aside(partial(_write_blobs, archive, blobs))
            yield drain.taken()
        for name, content in around(_listed(taken, events, tuple(named))):
            archive.writestr(entry(name), content)
    yield drain.taken()


# Packing takes its time, in which others are to be answered: both are done aside


def _write(lines: IO[bytes], page: Sequence[Told]) -> None:
    lines.write(b"".join(map(one_line, page)))


def _write_blobs(archive: ZipFile, blobs: Mapping[Digest, str]) -> None:
    for digest, text in blobs.items():
        archive.writestr(entry(blob_file(digest)), text)


def entry(name: str) -> ZipInfo:
    """Make an entry of a zip; it has no time of its own."""
    made = ZipInfo(name)
    made.compress_type = ZIP_DEFLATED
    return made


def _some(digests: Sequence[Digest]) -> Iterator[tuple[Digest, ...]]:
    rest = iter(digests)
    while some := tuple(islice(rest, AT_ONCE)):
        yield some


def _known(page: Sequence[Told]) -> Iterator[Recorded]:
    return (each for each in page if not isinstance(each, Unread))


def _listed(taken: Taken, events: Counted, blobs: tuple[Digest, ...]) -> BundleList:
    tenant, session = taken.key
    bundled = Bundled(
        session=session,
        events=events.number,
        head=digest_of(events.last),
        unread=tuple(events.unread),
    )
    return BundleList(
        made_at=taken.at, made_by=maker(), tenant=tenant, sessions=(bundled,), blobs=blobs
    )
