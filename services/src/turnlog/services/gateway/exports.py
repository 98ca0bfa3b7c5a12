from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from turnlog.events.codec import format_rfc3339
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.services.bundle.packing import export_zip
from turnlog.services.bundle.table import import_pyarrow, export_parquet
from turnlog.services.bundle.taking import ExportSource, encode_line
from turnlog.services.bundle.talk import export_markdown
from turnlog.services.gateway.desk import Dependencies, GatewayDependencies, RequestTenant
from turnlog.services.gateway.headers import NDJSON_MEDIA_TYPE, format_etag
from turnlog.services.runtime.records import SessionRecordLoader

export_router = APIRouter()

ExportFormat = Literal["ndjson", "chat", "parquet", "bundle"]


@dataclass(frozen=True, slots=True)
class ExportWriter:
    """One export format of a session."""

    media_type: str
    suffix: str
    write: Callable[[ExportSource], AsyncGenerator[bytes]]


async def write_lines(taken: ExportSource) -> AsyncGenerator[bytes]:
    """Yield the stored bytes of events, one per line."""
    async for page in taken.iterate_pages():
        yield b"".join(map(encode_line, page))


EXPORT_WRITERS: Final[Mapping[ExportFormat, ExportWriter]] = {
    "ndjson": ExportWriter(NDJSON_MEDIA_TYPE, "ndjson", write_lines),
    "chat": ExportWriter("text/markdown; charset=utf-8", "md", export_markdown),
    "parquet": ExportWriter("application/vnd.apache.parquet", "parquet", export_parquet),
    "bundle": ExportWriter("application/zip", "zip", export_zip),
}


@export_router.get(
    "/v1/sessions/{session}/export",
    response_class=Response,
    responses={200: {"content": {form.media_type: {} for form in EXPORT_WRITERS.values()}}},
    summary="A session to take away",
)
async def export_session(
    session: str,
    tenant: RequestTenant,
    deps: Dependencies,
    format: Annotated[ExportFormat, Query(description="The form it is to have")] = "ndjson",  # noqa: A002 - the name of the parameter
) -> StreamingResponse:
    """Stream all events of a session in the requested format."""
    if format == "parquet":
        import_pyarrow()
    last, form = await _load_last_event(deps, tenant, session), EXPORT_WRITERS[format]
    at, records = format_rfc3339(deps.sessions.clock()), SessionRecordLoader(deps.sessions)
    taken = ExportSource(deps.log, records, (tenant, session), last, at)
    headers = {"Content-Disposition": f'attachment; filename="{session}.{form.suffix}"'}
    if last:
        headers["ETag"] = format_etag(last.sequence)
    return StreamingResponse(form.write(taken), headers=headers, media_type=form.media_type)


async def _load_last_event(deps: GatewayDependencies, tenant: str, session: str) -> RecordedEvent | None:
    """Return the session's last event, or None when it cannot be read."""
    try:
        return await deps.sessions.load_last_event(tenant, session)
    except Corrupt:
        return None
