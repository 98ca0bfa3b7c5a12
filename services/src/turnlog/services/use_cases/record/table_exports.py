"""Exports of one session as a Parquet table or a Markdown transcript, sent while they are built.

pyarrow is an optional dependency because of its size. Without it the Parquet export is refused, and
the refusal names the extra to install.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final

from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.registry import format_event_name
from turnlog.projections.audit.export.transcript import (
    LaterChanges,
    UnsettledTurns,
    render_transcript,
)
from turnlog.projections.audit.verify.hash_chain import ChainKey
from turnlog.services.bundle.export_source import ExportBuffer, ExportSource
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.sessions.paged_events import PagedEvent, UndecodablePagedEvent

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

`stored` is the whole event as JSON, exactly as in the log; of a withheld reply it is the form that
readers get, and there is no hash, since a short text could be guessed from it. An undecodable event
has no name, and its line number as its sequence.
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
            await run_in_thread(partial(_write_rows, writer, schema, _build_rows(page, source)))
            yield drain.pop_bytes()
    yield drain.pop_bytes()


def _write_rows(writer: Any, schema: Any, rows: list[ParquetRow]) -> None:  # noqa: ANN401 - see `arrow`
    writer.write_table(import_pyarrow().Table.from_pylist(rows, schema))


def _build_rows(page: Sequence[PagedEvent], source: ExportSource) -> list[ParquetRow]:
    return [
        _build_undecodable_row(each, source.key)
        if isinstance(each, UndecodablePagedEvent)
        else _build_event_row(each, source.format_event(each))
        for each in page
    ]


def _build_event_row(recorded: RecordedEvent, form: bytes) -> ParquetRow:
    return {
        "tenant": recorded.tenant,
        "session": recorded.session,
        "sequence": recorded.sequence,
        "name": format_event_name(recorded.envelope.type),
        "time": recorded.envelope.time,
        "actor": recorded.envelope.actor,
        "source": recorded.envelope.source,
        "hash": recorded.head.hash if form is recorded.opened_bytes else None,
        "prevhash": recorded.envelope.prevhash,
        "stored": form.decode(),
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
    afterwards, unsettled = LaterChanges(), UnsettledTurns()
    async for page in source.iterate_pages():
        for recorded in page:
            if not isinstance(recorded, UndecodablePagedEvent):
                afterwards.apply_event(recorded)
    async for page in source.iterate_pages():
        yield "".join(
            part for each in page for part in _render_event(each, afterwards, unsettled)
        ).encode()
    yield "".join(unsettled.render_remaining(afterwards)).encode()


def _render_event(
    each: PagedEvent, afterwards: LaterChanges, unsettled: UnsettledTurns
) -> Iterator[str]:
    if isinstance(each, UndecodablePagedEvent):
        yield f"*Event {each.number} cannot be read: {each.detail}.*\n\n"
    else:
        yield from render_transcript((each,), afterwards, unsettled)
