from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from turnlog.events.codec import rfc3339
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt
from turnlog.services.bundle.packing import packed
from turnlog.services.bundle.table import arrow, table
from turnlog.services.bundle.taking import Taken, one_line
from turnlog.services.bundle.talk import talk
from turnlog.services.gateway.desk import AtDesk, Desk, Tenant
from turnlog.services.gateway.headers import NDJSON, etag
from turnlog.services.runtime.records import Records

router = APIRouter()

Format = Literal["ndjson", "chat", "parquet", "bundle"]


@dataclass(frozen=True, slots=True)
class Form:
    """One export format of a session."""

    media: str
    suffix: str
    sent: Callable[[Taken], AsyncGenerator[bytes]]


async def lines(taken: Taken) -> AsyncGenerator[bytes]:
    """Yield the stored bytes of events, one per line."""
    async for page in taken.pages():
        yield b"".join(map(one_line, page))


FORMS: Final[Mapping[Format, Form]] = {
    "ndjson": Form(NDJSON, "ndjson", lines),
    "chat": Form("text/markdown; charset=utf-8", "md", talk),
    "parquet": Form("application/vnd.apache.parquet", "parquet", table),
    "bundle": Form("application/zip", "zip", packed),
}


@router.get(
    "/v1/sessions/{session}/export",
    response_class=Response,
    responses={200: {"content": {form.media: {} for form in FORMS.values()}}},
    summary="A session to take away",
)
async def export_session(
    session: str,
    tenant: Tenant,
    desk: AtDesk,
    format: Annotated[Format, Query(description="The form it is to have")] = "ndjson",  # noqa: A002 - the name of the parameter
) -> StreamingResponse:
    """Stream all events of a session in the requested format."""
    if format == "parquet":
        arrow()
    last, form = await _last(desk, tenant, session), FORMS[format]
    at, records = rfc3339(desk.sessions.clock()), Records(desk.sessions)
    taken = Taken(desk.log, records, (tenant, session), last, at)
    headers = {"Content-Disposition": f'attachment; filename="{session}.{form.suffix}"'}
    if last:
        headers["ETag"] = etag(last.sequence)
    return StreamingResponse(form.sent(taken), headers=headers, media_type=form.media)


async def _last(desk: Desk, tenant: str, session: str) -> Recorded | None:
    """Return the session's last event, or None when it cannot be read."""
    try:
        return await desk.sessions.last(tenant, session)
    except Corrupt:
        return None
