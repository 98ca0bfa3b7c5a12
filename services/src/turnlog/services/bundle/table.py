from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final

from turnlog.events.content import digest_of
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Refused
from turnlog.events.kinds import name_of
from turnlog.projections.audit.chain import Key
from turnlog.services.bundle.drain import Drain
from turnlog.services.bundle.taking import Taken
from turnlog.services.runtime.aside import aside
from turnlog.services.runtime.pages import Told, Unread

Row = dict[str, str | int | None]

COLUMNS: Final = {
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


def arrow() -> Any:  # noqa: ANN401 - pyarrow has no types
    """Import pyarrow, or refuse the export where it is not installed."""
    try:
        return import_module("pyarrow")
    except ImportError:
        detail, fix = "Parquet needs pyarrow", "pip install 'turnlog-services[parquet]'"
        raise Refused("not-installed", detail, field="format", fix=fix) from None


async def table(taken: Taken) -> AsyncGenerator[bytes]:
    """Yield the Parquet file in pieces; each page of events is a row group."""
    pa, parquet, drain = arrow(), import_module("pyarrow.parquet"), Drain()
    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in COLUMNS.items()])
    with parquet.ParquetWriter(pa.PythonFile(drain, "w"), schema, compression="zstd") as writer:
        async for page in taken.pages():
            # Compression takes time, so it runs in a thread and does not block other requests.
            await aside(partial(_write, writer, schema, _rows(page, taken.key)))
            yield drain.taken()
    yield drain.taken()


def _write(writer: Any, schema: Any, rows: list[Row]) -> None:  # noqa: ANN401 - see `arrow`
    writer.write_table(arrow().Table.from_pylist(rows, schema))


def _rows(page: Sequence[Told], key: Key) -> list[Row]:
    return [_unread(each, key) if isinstance(each, Unread) else _row(each) for each in page]


def _row(recorded: Recorded) -> Row:
    return {
        "tenant": recorded.tenant,
        "session": recorded.session,
        "sequence": recorded.sequence,
        "name": name_of(recorded.envelope.type),
        "time": recorded.envelope.time,
        "actor": recorded.envelope.actor,
        "source": recorded.envelope.source,
        "hash": recorded.head.hash,
        "prevhash": recorded.envelope.prevhash,
        "stored": recorded.stored.decode(),
    }


def _unread(unread: Unread, key: Key) -> Row:
    tenant, session = key
    stored = unread.stored.decode(errors="backslashreplace")
    known = {"tenant": tenant, "session": session, "sequence": unread.number}
    return dict.fromkeys(COLUMNS) | known | {"hash": digest_of(unread.stored), "stored": stored}
