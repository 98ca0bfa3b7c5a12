"""Exports of one session as a bundle (zip), a Parquet table or a Markdown transcript.

Each export is sent while it is built. The zip holds in memory only a page of events, the digests of
blobs and one batch of blobs; its manifest comes last, because its content is known only then.
pyarrow is an optional dependency because of its size. Without it the Parquet export is refused, and
the refusal names the extra to install.
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
"""Number of blobs held in memory at a time."""


@dataclass(slots=True)
class Counted:
    """What the manifest says about the events that were sent."""

    number: int = 0
    last: bytes = b""
    unread: list[Unreadable] = field(default_factory=list[Unreadable])

    def count(self, page: Sequence[Told]) -> None:
        found = (each for each in page if isinstance(each, Unread))
        self.unread += [Unreadable(number=each.number, detail=each.detail) for each in found]
        self.number, self.last = self.number + len(page), page[-1].stored


async def packed(taken: Taken) -> AsyncGenerator[bytes]:
    """Yield the zip in pieces."""
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


# Compression takes time, so both writers run in a thread and do not block other requests.


def _write(lines: IO[bytes], page: Sequence[Told]) -> None:
    lines.write(b"".join(map(one_line, page)))


def _write_blobs(archive: ZipFile, blobs: Mapping[Digest, str]) -> None:
    for digest, text in blobs.items():
        archive.writestr(entry(blob_file(digest)), text)


def entry(name: str) -> ZipInfo:
    """Build a zip entry without a timestamp of its own."""
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
