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

from turnlog.events.content import Digest, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.projections.audit.bundle import (
    BundledSession,
    BundleManifest,
    UndecodableLine,
    build_blob_path,
    build_session_path,
)
from turnlog.projections.audit.retelling import collect_blob_digests
from turnlog.services.bundle.around import iterate_bundle_files, get_release_name
from turnlog.services.bundle.drain import ExportBuffer
from turnlog.services.bundle.taking import ExportSource, encode_line
from turnlog.services.runtime.aside import run_in_thread
from turnlog.services.runtime.pages import PagedEvent, UndecodablePagedEvent

BLOBS_AT_ONCE: Final = 16
"""Number of blobs held in memory at a time."""


@dataclass(slots=True)
class ExportedEvents:
    """What the manifest says about the events that were sent."""

    event_count: int = 0
    last_stored: bytes = b""
    undecodable: list[UndecodableLine] = field(default_factory=list[UndecodableLine])

    def add_page(self, page: Sequence[PagedEvent]) -> None:
        found = (each for each in page if isinstance(each, UndecodablePagedEvent))
        self.undecodable += [UndecodableLine(number=each.number, detail=each.detail) for each in found]
        self.event_count, self.last_stored = self.event_count + len(page), page[-1].stored


async def export_zip(source: ExportSource) -> AsyncGenerator[bytes]:
    """Yield the zip in pieces."""
    drain, named, events = ExportBuffer(), dict[Digest, None](), ExportedEvents()
    tenant, session = source.key
    with ZipFile(drain, "w") as archive:
        file = build_zip_entry(build_session_path(session))
        with archive.open(file, "w", force_zip64=True) as lines:
            async for page in source.iterate_pages():
                await run_in_thread(partial(_write_lines, lines, page))
                events.add_page(page)
                named |= dict.fromkeys(collect_blob_digests(_filter_decoded(page)))
                yield drain.pop_bytes()
        for digests in _split_digests(tuple(named)):
            blobs = await source.records.load_blobs(tenant, digests)
            await run_in_thread(partial(_write_blobs, archive, blobs))
            yield drain.pop_bytes()
        for name, content in iterate_bundle_files(_build_bundle_list(source, events, tuple(named))):
            archive.writestr(build_zip_entry(name), content)
    yield drain.pop_bytes()


# Compression takes time, so both writers run in a thread and do not block other requests.


def _write_lines(lines: IO[bytes], page: Sequence[PagedEvent]) -> None:
    lines.write(b"".join(map(encode_line, page)))


def _write_blobs(archive: ZipFile, blobs: Mapping[Digest, str]) -> None:
    for digest, text in blobs.items():
        archive.writestr(build_zip_entry(build_blob_path(digest)), text)


def build_zip_entry(name: str) -> ZipInfo:
    """Build a zip entry without a timestamp of its own."""
    made = ZipInfo(name)
    made.compress_type = ZIP_DEFLATED
    return made


def _split_digests(digests: Sequence[Digest]) -> Iterator[tuple[Digest, ...]]:
    rest = iter(digests)
    while some := tuple(islice(rest, BLOBS_AT_ONCE)):
        yield some


def _filter_decoded(page: Sequence[PagedEvent]) -> Iterator[RecordedEvent]:
    return (each for each in page if not isinstance(each, UndecodablePagedEvent))


def _build_bundle_list(source: ExportSource, events: ExportedEvents, blobs: tuple[Digest, ...]) -> BundleManifest:
    tenant, session = source.key
    bundled = BundledSession(
        session=session,
        events=events.event_count,
        head=compute_digest(events.last_stored),
        unread=tuple(events.undecodable),
    )
    return BundleManifest(
        made_at=source.requested_at, made_by=get_release_name(), tenant=tenant, sessions=(bundled,), blobs=blobs
    )
