"""Routes for stored events, as JSON pages, NDJSON or a stream, and for exports of a session.

A line or a frame holds an event as its reader gets it; the id of a frame is the position to resume
from: the session's sequence, or the stream sequence for all sessions.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from turnlog.contract import api_paths
from turnlog.events.errors import StreamHole
from turnlog.projections.blueprint.storable_json import MAX_INT
from turnlog.services.api.published_events.event_pages import SessionPageHead, TenantPageHead
from turnlog.services.http.component_schemas import BINARY_CONTENT, refer_to_component
from turnlog.services.http.headers import (
    JSON_MEDIA_TYPE,
    NDJSON_MEDIA_TYPE,
    SSE_MEDIA_TYPE,
    choose_media_type,
    format_etag,
    get_last_event_id,
)
from turnlog.services.http.problem_details import ProblemDetails, convert_error
from turnlog.services.http.request_tenant import RequestTenant
from turnlog.services.http.session_filter import ATTRIBUTE_FILTER, parse_attribute_filters
from turnlog.services.http.sse import create_sse_response, encode_frame
from turnlog.services.reads.recorded_looks import RequestLook
from turnlog.services.use_cases.record.event_reading import (
    DEFAULT_PAGE_SIZE,
    EventReading,
    EventSelection,
    parse_event_names,
)
from turnlog.services.use_cases.record.session_exports import ExportFormat, SessionExports
from turnlog.services.use_cases.record.tenant_tail import StreamedEvent

router = APIRouter()


async def get_events(request: Request) -> EventReading:
    """Return the use cases of reading events."""
    events: EventReading = request.app.state.use_cases.events
    return events


async def get_exports(request: Request) -> SessionExports:
    """Return the use cases of exports."""
    exports: SessionExports = request.app.state.use_cases.exports
    return exports


Events = Annotated[EventReading, Depends(get_events)]


class EventRange(BaseModel):
    """The query parameters that select events."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    after: Annotated[int, Field(ge=0, le=MAX_INT)] | None = None
    """A sequence of the session, or a stream sequence for all sessions; later events are returned.
    """
    types: str | None = None
    """Event names separated by commas, such as `turn-submitted,turn-completed`; all by default."""
    limit: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """The maximum number of events in a page, or of lines."""
    stored: bool = False
    """Whether an audit asks for the stored bytes of texts that are withheld from other readers."""

    tokens: bool = False
    """Whether a stream has the replies too while they are generated, as `token` between the events.
    """

    def select_events(self) -> EventSelection:
        """Return which events are selected; raises `Refused` for unknown names."""
        return EventSelection(
            names=parse_event_names(self.types), stored=self.stored, tokens=self.tokens
        )

    def choose_cursor(self, request: Request) -> str | None:
        """Return the position to resume from; `Last-Event-ID` takes precedence over `after`."""
        return get_last_event_id(request) or (None if self.after is None else str(self.after))


EventRangeQuery = Annotated[EventRange, Query()]


class TenantEventRange(EventRange):
    """The query parameters that select events of all sessions.

    Other parameters than those of attributes are refused, for ignoring one would select too much.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    session: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}\*?$")] | None = None
    """The id of the session, or how it begins: `support-*`."""
    blueprint: Annotated[str, Field(max_length=200)] | None = None
    """The name of the blueprint that the session was opened with. A coordinator's children are
    opened with that of their parent.
    """

    def select_events(self) -> EventSelection:
        """Return which events of which sessions are selected."""
        return (
            super()
            .select_events()
            .narrow_to_sessions(
                session=self.session,
                blueprint=self.blueprint,
                attributes=parse_attribute_filters(self),
            )
        )


TenantEventRangeQuery = Annotated[TenantEventRange, Query()]


@router.get(
    api_paths.SESSION_EVENTS,
    response_class=Response,
    responses={
        200: {
            "content": {
                JSON_MEDIA_TYPE: refer_to_component("SessionEventPage"),
                NDJSON_MEDIA_TYPE: refer_to_component("StoredEvent"),
                SSE_MEDIA_TYPE: refer_to_component("EventOrTokenEvent"),
            }
        }
    },
    summary="List the events of a session",
)
async def list_session_events(
    session: str,
    tenant: RequestTenant,
    events: Events,
    event_range: EventRangeQuery,
    request: Request,
    look: RequestLook,
) -> Response:
    """Return a session's events after a sequence: one page, all as lines, or a live stream."""
    if event_range.stored:
        look.begin("withheld")
    selection, after = event_range.select_events(), event_range.after or 0
    form = choose_media_type(request, JSON_MEDIA_TYPE, NDJSON_MEDIA_TYPE, SSE_MEDIA_TYPE)
    if form == SSE_MEDIA_TYPE:
        cursor = event_range.choose_cursor(request)
        stream = await events.open_session_stream(tenant, session, cursor, selection)
        return create_sse_response(request, _encode_frames(stream))
    limit = event_range.limit or (None if form == NDJSON_MEDIA_TYPE else DEFAULT_PAGE_SIZE)
    page = await events.load_session_page(tenant, session, selection, after=after, limit=limit)
    headers = {"ETag": format_etag(page.head.sequence)}
    if form == NDJSON_MEDIA_TYPE:
        lines = b"".join(map(format_line, page.events))
        return Response(lines, headers=headers, media_type=NDJSON_MEDIA_TYPE)
    return _create_page_response(page.head, page.events, headers)


_TENANT_LINES: Final = [
    refer_to_component(name)["schema"] for name in ("StoredEvent", ProblemDetails.__name__)
]
"""The lines are events; where the log has lost one, the last line is the error."""


@router.get(
    api_paths.EVENTS,
    response_class=Response,
    responses={
        200: {
            "content": {
                JSON_MEDIA_TYPE: refer_to_component("TenantEventPage"),
                NDJSON_MEDIA_TYPE: {"schema": {"anyOf": _TENANT_LINES}},
                SSE_MEDIA_TYPE: refer_to_component("EventOrTokenEvent"),
            }
        }
    },
    summary="List the events of all sessions",
    openapi_extra={"parameters": [ATTRIBUTE_FILTER]},
)
async def list_tenant_events(
    tenant: RequestTenant,
    events: Events,
    event_range: TenantEventRangeQuery,
    request: Request,
    look: RequestLook,
) -> Response:
    """Return the events of all sessions after a stream sequence.

    Where the log has lost an event, a page ends before it, and the next one is the error `corrupt`;
    lines end with that error as the last line.
    """
    if event_range.stored:
        look.begin("withheld")
    look.session = event_range.session
    selection, after = event_range.select_events(), event_range.after or 0
    form = choose_media_type(request, JSON_MEDIA_TYPE, NDJSON_MEDIA_TYPE, SSE_MEDIA_TYPE)
    if form == SSE_MEDIA_TYPE:
        cursor = event_range.choose_cursor(request)
        stream = await events.open_tenant_stream(tenant, cursor, selection)
        return create_sse_response(request, _encode_frames(stream))
    if form == NDJSON_MEDIA_TYPE:
        found = await events.read_tenant_events(
            tenant, selection, after=after, limit=event_range.limit
        )
        return StreamingResponse(_encode_lines(found), media_type=NDJSON_MEDIA_TYPE)
    limit = event_range.limit or DEFAULT_PAGE_SIZE
    page = await events.load_tenant_page(tenant, selection, after=after, limit=limit)
    return _create_page_response(page.head, page.events)


async def _encode_frames(stream: AsyncGenerator[StreamedEvent]) -> AsyncGenerator[bytes]:
    async with aclosing(stream):
        async for each in stream:
            if each.frame is None:
                each.frame = encode_frame(each.name, each.data, each.cursor)
            yield each.frame


async def _encode_lines(found: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(found):
        try:
            async for each in found:
                yield format_line(each)
        except StreamHole as hole:
            yield convert_error(hole).model_dump_json(exclude_none=True).encode() + b"\n"


def format_line(stored: bytes) -> bytes:
    """Return stored bytes as one line; bytes of foreign origin may contain line breaks."""
    return (json.dumps(json.loads(stored)).encode() if b"\n" in stored else stored) + b"\n"


def _create_page_response(
    head: SessionPageHead | TenantPageHead,
    stored: Sequence[bytes],
    headers: dict[str, str] | None = None,
) -> Response:
    """Return a page that contains stored bytes unchanged."""
    fields = head.model_dump_json(exclude_none=True).encode().removesuffix(b"}")
    body = fields + b',"events":[' + b",".join(stored) + b"]}"
    return Response(body, headers=headers, media_type=JSON_MEDIA_TYPE)


StoredQuery = Annotated[
    bool, Query(description="Whether an audit asks for the stored bytes of withheld texts")
]


@dataclass(frozen=True, slots=True)
class ExportBody:
    """How an export format is sent."""

    media_type: str
    content: Mapping[str, object]
    """How the OpenAPI document describes the body."""
    suffix: str


EXPORT_BODIES: Final[Mapping[ExportFormat, ExportBody]] = {
    "ndjson": ExportBody(NDJSON_MEDIA_TYPE, refer_to_component("StoredEvent"), "ndjson"),
    "chat": ExportBody("text/markdown; charset=utf-8", {"schema": {"type": "string"}}, "md"),
    "parquet": ExportBody("application/vnd.apache.parquet", BINARY_CONTENT, "parquet"),
    "bundle": ExportBody("application/zip", BINARY_CONTENT, "zip"),
}


@router.get(
    api_paths.EXPORT,
    response_class=Response,
    responses={
        200: {"content": {form.media_type: form.content for form in EXPORT_BODIES.values()}}
    },
    summary="Export a session",
)
async def export_session(
    session: str,
    tenant: RequestTenant,
    exports: Annotated[SessionExports, Depends(get_exports)],
    format: Annotated[ExportFormat, Query(description="The export format")] = "ndjson",  # noqa: A002 - the name of the parameter
    *,
    stored: StoredQuery = False,
    look: RequestLook,
) -> StreamingResponse:
    """Stream all events of a session in the requested format.

    A bundle has all events as they are stored, since its recipient checks them.
    """
    look.begin("bundle" if format == "bundle" else "withheld" if stored else "export")
    export, body = (
        await exports.export_session(tenant, session, format, stored=stored),
        EXPORT_BODIES[format],
    )
    headers = {"Content-Disposition": f'attachment; filename="{session}.{body.suffix}"'}
    if export.sequence is not None:
        headers["ETag"] = format_etag(export.sequence)
    return StreamingResponse(export.pieces, headers=headers, media_type=body.media_type)
