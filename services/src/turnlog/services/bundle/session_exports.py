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
from importlib import import_module
from itertools import islice
from typing import IO, Any, Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from turnlog.events.content import Digest, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.registry import format_event_name
from turnlog.projections.audit.export.bundle_format import (
    BundledSession,
    BundleManifest,
    UndecodableLine,
    build_blob_path,
    build_session_path,
)
from turnlog.projections.audit.export.transcript import (
    LaterChanges,
    UnsettledTurns,
    render_transcript,
)
from turnlog.projections.audit.record.session_replay import collect_blob_digests
from turnlog.projections.audit.verify.hash_chain import ChainKey
from turnlog.services.bundle.bundle_files import get_release_name, iterate_bundle_files
from turnlog.services.bundle.export_source import ExportBuffer, ExportSource, encode_line
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.sessions.paged_events import PagedEvent, UndecodablePagedEvent

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
        self.undecodable += [
            UndecodableLine(number=each.number, detail=each.detail) for each in found
        ]
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


def _build_bundle_list(
    source: ExportSource, events: ExportedEvents, blobs: tuple[Digest, ...]
) -> BundleManifest:
    tenant, session = source.key
    bundled = BundledSession(
        session=session,
        events=events.event_count,
        head=compute_digest(events.last_stored),
        unread=tuple(events.undecodable),
    )
    return BundleManifest(
        made_at=source.requested_at,
        made_by=get_release_name(),
        tenant=tenant,
        sessions=(bundled,),
        blobs=blobs,
    )


ParquetRow = dict[str, str | int | None]

PARQUET_COLUMNS: Final = {
    "tenant": "string",
    "session": "string",
    "sequence": "int64",
    "name": "string",
    "time": "string",
    "actor": "string",
    "source": "string",
    "hash": "string",
    "prevhash": "string",
    "stored": "string",
}
"""Column to type, one row for each event.

`stored` is the whole event as JSON, exactly as in the log. An undecodable event has no name, and
its line number as its sequence.
"""


def import_pyarrow() -> Any:  # noqa: ANN401 - pyarrow has no types
    """Import pyarrow, or refuse the export where it is not installed."""
    try:
        return import_module("pyarrow")
    except ImportError:
        detail, fix = "Parquet needs pyarrow", "pip install 'turnlog-services[parquet]'"
        raise Refused("not-installed", detail, field="format", fix=fix) from None


async def export_parquet(source: ExportSource) -> AsyncGenerator[bytes]:
    """Yield the Parquet file in pieces; each page of events is a row group."""
    pa, parquet, drain = import_pyarrow(), import_module("pyarrow.parquet"), ExportBuffer()
    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in PARQUET_COLUMNS.items()])
    with parquet.ParquetWriter(pa.PythonFile(drain, "w"), schema, compression="zstd") as writer:
        async for page in source.iterate_pages():
            # Compression takes time, so it runs in a thread and does not block other requests.
            await run_in_thread(partial(_write_rows, writer, schema, _build_rows(page, source.key)))
            yield drain.pop_bytes()
    yield drain.pop_bytes()


def _write_rows(writer: Any, schema: Any, rows: list[ParquetRow]) -> None:  # noqa: ANN401 - see `arrow`
    writer.write_table(import_pyarrow().Table.from_pylist(rows, schema))


def _build_rows(page: Sequence[PagedEvent], key: ChainKey) -> list[ParquetRow]:
    return [
        _build_undecodable_row(each, key)
        if isinstance(each, UndecodablePagedEvent)
        else _build_event_row(each)
        for each in page
    ]


def _build_event_row(recorded: RecordedEvent) -> ParquetRow:
    return {
        "tenant": recorded.tenant,
        "session": recorded.session,
        "sequence": recorded.sequence,
        "name": format_event_name(recorded.envelope.type),
        "time": recorded.envelope.time,
        "actor": recorded.envelope.actor,
        "source": recorded.envelope.source,
        "hash": recorded.head.hash,
        "prevhash": recorded.envelope.prevhash,
        "stored": recorded.stored.decode(),
    }


def _build_undecodable_row(unread: UndecodablePagedEvent, key: ChainKey) -> ParquetRow:
    tenant, session = key
    stored = unread.stored.decode(errors="backslashreplace")
    known = {"tenant": tenant, "session": session, "sequence": unread.number}
    return (
        dict.fromkeys(PARQUET_COLUMNS)
        | known
        | {"hash": compute_digest(unread.stored), "stored": stored}
    )


async def export_markdown(source: ExportSource) -> AsyncGenerator[bytes]:
    """Yield the Markdown transcript in pieces.

    The session is read twice, because later events change how earlier turns are shown.
    """
    afterwards, untold = LaterChanges(), UnsettledTurns()
    async for page in source.iterate_pages():
        for recorded in page:
            if not isinstance(recorded, UndecodablePagedEvent):
                afterwards.apply_event(recorded)
    async for page in source.iterate_pages():
        yield "".join(
            part for each in page for part in _render_event(each, afterwards, untold)
        ).encode()
    yield "".join(untold.render_remaining(afterwards)).encode()


def _render_event(
    each: PagedEvent, afterwards: LaterChanges, untold: UnsettledTurns
) -> Iterator[str]:
    if isinstance(each, UndecodablePagedEvent):
        yield f"*Event {each.number} cannot be read: {each.detail}.*\n\n"
    else:
        yield from render_transcript((each,), afterwards, untold)
