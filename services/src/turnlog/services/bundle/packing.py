"""A session as a bundle of its own: a zip that is sent while it is made.

The list comes last, since only then all is known that stands in it. Nothing is held but a page of
events, the digests of blobs, and the few blobs that are being sent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import islice
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from turnlog.events.content import Digest
from turnlog.projections.audit.bundle import Bundled, BundleList, blob_file, session_file
from turnlog.projections.audit.retelling import blobs_named
from turnlog.services.bundle.around import around, maker
from turnlog.services.bundle.drain import Drain
from turnlog.services.bundle.taking import Taken, one_line

AT_ONCE: Final = 16
"""Blobs that are held at a time."""


async def packed(taken: Taken) -> AsyncGenerator[bytes]:
    """Send the zip, piece by piece."""
    drain, named = Drain(), dict[Digest, None]()
    with ZipFile(drain, "w") as archive:
        file = entry(session_file(taken.last.session))
        with archive.open(file, "w", force_zip64=True) as lines:
            async for page in taken.pages():
                lines.write(b"".join(map(one_line, page)))
                named |= dict.fromkeys(blobs_named(page))
                yield drain.taken()
        for digests in _some(tuple(named)):
            blobs = await taken.records.blobs(taken.last.tenant, digests)
            for digest, text in blobs.items():
                archive.writestr(entry(blob_file(digest)), text)
            yield drain.taken()
        for name, content in around(_listed(taken, tuple(named))):
            archive.writestr(entry(name), content)
    yield drain.taken()


def entry(name: str) -> ZipInfo:
    """Make an entry of a zip; it has no time of its own."""
    made = ZipInfo(name)
    made.compress_type = ZIP_DEFLATED
    return made


def _some(digests: Sequence[Digest]) -> Iterator[tuple[Digest, ...]]:
    rest = iter(digests)
    while some := tuple(islice(rest, AT_ONCE)):
        yield some


def _listed(taken: Taken, blobs: tuple[Digest, ...]) -> BundleList:
    last = taken.last
    return BundleList(
        made_at=taken.at,
        made_by=maker(),
        tenant=last.tenant,
        sessions=(Bundled(session=last.session, events=last.sequence, head=last.head.hash),),
        blobs=blobs,
    )
