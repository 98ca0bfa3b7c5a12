"""Routes for stored events, as JSON pages, NDJSON or a stream, and for exports of a session.

The responses contain the stored bytes of each event, so that a client can check the hash chain
itself: the SHA-256 of a line is the `prevhash` of the session's next event. Of what belongs to a
withheld reply they contain another form, which has the replacement and names where the stored bytes
are: an audit gets them with `stored=true`. A bundle always has them. Unknown event names in a
filter are refused, because they would never match. Exports are streamed while the log is read, so
that long sessions need little memory. A corrupt session is exported as it is stored, because an
auditor needs it most.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from turnlog.events.codec import decode_event, format_rfc3339
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused, StreamHole
from turnlog.events.registry import EVENT_NAMES, format_event_name
from turnlog.events.store.ports import RawEvent
from turnlog.projections.blueprint.storable_json import MAX_INT
from turnlog.projections.blueprint.validation.blueprint_faults import suggest_word
from turnlog.projections.read_models.withheld_events import RedactedTurns
from turnlog.services.api.published_events.event_pages import SessionPageHead, TenantPageHead
from turnlog.services.audit.redactions import load_session_redactions
from turnlog.services.audit.session_record import SessionRecordLoader
from turnlog.services.bundle.bundle_zip import export_zip
from turnlog.services.bundle.export_source import ExportSource
from turnlog.services.bundle.table_exports import (
    export_markdown,
    export_parquet,
    import_pyarrow,
)
from turnlog.services.gateway.dependencies import Dependencies, GatewayDependencies, RequestTenant
from turnlog.services.gateway.http.component_schemas import BINARY_CONTENT, refer_to_component
from turnlog.services.gateway.http.headers import (
    JSON_MEDIA_TYPE,
    NDJSON_MEDIA_TYPE,
    SSE_MEDIA_TYPE,
    choose_media_type,
    format_etag,
    get_last_event_id,
)
from turnlog.services.gateway.problem_details import ProblemDetails, convert_error
from turnlog.services.gateway.streaming.event_stream import (
    open_session_event_stream,
    open_tenant_event_stream,
)
from turnlog.services.sessions.time_travel import refuse_future

router = APIRouter()

DEFAULT_PAGE_SIZE = 100


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

    def parse_event_names(self) -> frozenset[str] | None:
        """Return the selected event names, or None for all."""
        if self.types is None:
            return None
        names = frozenset(name.strip() for name in self.types.split(","))
        for name in names - set(EVENT_NAMES):
            detail = f"there is no event {name[:80]!r}"
            raise Refused(
                "unknown-type", detail, field="types", fix=suggest_word(name[:80], EVENT_NAMES)
            )
        return names

    def choose_cursor(self, request: Request) -> str | None:
        """Return the position to resume from; `Last-Event-ID` takes precedence over `after`."""
        return get_last_event_id(request) or (None if self.after is None else str(self.after))


EventRangeQuery = Annotated[EventRange, Query()]


@router.get(
    "/v1/sessions/{session}/events",
    response_class=Response,
    responses={
        200: {
            "content": {
                JSON_MEDIA_TYPE: refer_to_component("SessionEventPage"),
                NDJSON_MEDIA_TYPE: refer_to_component("StoredEvent"),
                SSE_MEDIA_TYPE: refer_to_component("EventStreamEvent"),
            }
        }
    },
    summary="List the events of a session",
)
async def list_session_events(
    session: str,
    tenant: RequestTenant,
    deps: Dependencies,
    event_range: EventRangeQuery,
    request: Request,
) -> Response:
    """Return a session's events after a sequence: one page, all as lines, or a live stream."""
    names = event_range.parse_event_names()
    form = choose_media_type(request, JSON_MEDIA_TYPE, NDJSON_MEDIA_TYPE, SSE_MEDIA_TYPE)
    if form == SSE_MEDIA_TYPE:
        return await open_session_event_stream(
            deps,
            tenant,
            session,
            event_range.choose_cursor(request),
            names,
            stored=event_range.stored,
        )
    last = await deps.command_handler.load_last_event(tenant, session, event_range.after or 0)
    refuse_future(event_range.after or 0, last.sequence, "after")
    later = await deps.command_handler.load_events_after(last, event_range.after or 0)
    redacted = (
        RedactedTurns() if event_range.stored else await load_session_redactions(deps.log, last)
    )
    headers = {"ETag": format_etag(last.sequence)}
    selected = [event for event in later if has_selected_name(event, names)]
    if form == NDJSON_MEDIA_TYPE:
        lines = b"".join(
            format_line(redacted.format_for_reader(event))
            for event in selected[: event_range.limit]
        )
        return Response(lines, headers=headers, media_type=NDJSON_MEDIA_TYPE)
    page = selected[: event_range.limit or DEFAULT_PAGE_SIZE]
    more = len(selected) > len(page)
    head = SessionPageHead(
        session=session,
        sequence=last.sequence,
        after=page[-1].sequence if more else last.sequence,
        more=more,
    )
    return _create_page_response(head, [*map(redacted.format_for_reader, page)], headers)


_TENANT_LINES: Final = [
    refer_to_component(name)["schema"] for name in ("StoredEvent", ProblemDetails.__name__)
]
"""The lines are events; where the log has lost one, the last line is the error."""


@router.get(
    "/v1/events",
    response_class=Response,
    responses={
        200: {
            "content": {
                JSON_MEDIA_TYPE: refer_to_component("TenantEventPage"),
                NDJSON_MEDIA_TYPE: {"schema": {"anyOf": _TENANT_LINES}},
                SSE_MEDIA_TYPE: refer_to_component("EventStreamEvent"),
            }
        }
    },
    summary="List the events of all sessions",
)
async def list_tenant_events(
    tenant: RequestTenant, deps: Dependencies, event_range: EventRangeQuery, request: Request
) -> Response:
    """Return the events of all sessions after a stream sequence.

    Where the log has lost an event, a page ends before it, and the next one is the error `corrupt`;
    lines end with that error as the last line.
    """
    names = event_range.parse_event_names()
    form = choose_media_type(request, JSON_MEDIA_TYPE, NDJSON_MEDIA_TYPE, SSE_MEDIA_TYPE)
    if form == SSE_MEDIA_TYPE:
        return await open_tenant_event_stream(
            deps, tenant, event_range.choose_cursor(request), names, stored=event_range.stored
        )
    await _check_position(deps, tenant, event_range.after or 0)
    if form == NDJSON_MEDIA_TYPE:
        return StreamingResponse(
            _iterate_event_lines(deps, tenant, event_range, names), media_type=NDJSON_MEDIA_TYPE
        )
    return await _create_tenant_page(deps, tenant, event_range, names)


async def _check_position(deps: GatewayDependencies, tenant: str, position: int) -> None:
    if position and position > await deps.log.get_last_stream_sequence(tenant):
        fix = "continue from the `after` of a page, or from the id of an event of the stream"
        raise Refused("not-there-yet", "the log has no such position", field="after", fix=fix)


async def _create_tenant_page(
    deps: GatewayDependencies, tenant: str, event_range: EventRange, names: Collection[str] | None
) -> Response:
    after, limit = event_range.after or 0, event_range.limit or DEFAULT_PAGE_SIZE
    redacted = await _load_tenant_redactions(deps, tenant, event_range)
    page: list[bytes] = []
    unreadable: list[int] = []
    more = False
    async with aclosing(_iterate_raw_events(deps, tenant, after)) as raws:
        try:
            async for raw in raws:
                more = len(page) == limit
                if more:
                    break
                after = raw.stream_sequence
                event = _decode_raw_event(raw)
                if event is None:
                    unreadable.append(raw.stream_sequence)
                elif has_selected_name(event, names):
                    page.append(redacted.format_for_reader(event))
        except StreamHole:
            if after == (event_range.after or 0):
                raise
            more = True
    head = TenantPageHead(after=after, more=more, unreadable=tuple(unreadable))
    return _create_page_response(head, page)


async def _iterate_event_lines(
    deps: GatewayDependencies, tenant: str, event_range: EventRange, names: Collection[str] | None
) -> AsyncGenerator[bytes]:
    left = event_range.limit
    redacted = await _load_tenant_redactions(deps, tenant, event_range)
    async with aclosing(_iterate_raw_events(deps, tenant, event_range.after or 0)) as raws:
        try:
            async for raw in raws:
                if left == 0:
                    return
                event = _decode_raw_event(raw)
                if event is not None and has_selected_name(event, names):
                    yield format_line(redacted.format_for_reader(event))
                    left = None if left is None else left - 1
        except StreamHole as hole:
            yield convert_error(hole).model_dump_json(exclude_none=True).encode() + b"\n"


async def _load_tenant_redactions(
    deps: GatewayDependencies, tenant: str, event_range: EventRange
) -> RedactedTurns:
    if event_range.stored:
        return RedactedTurns()
    return await deps.redactions.load_redactions(deps.log, tenant)


async def _iterate_raw_events(
    deps: GatewayDependencies, tenant: str, after: int
) -> AsyncGenerator[RawEvent]:
    async with aclosing(deps.log.stream_raw_events(tenant, after, live=False)) as bulks:
        async for bulk in bulks:
            for raw in bulk:
                yield raw


def _decode_raw_event(raw: RawEvent) -> RecordedEvent | None:
    try:
        return decode_event(raw.stored, raw.stream_sequence)
    except Corrupt:
        return None


def has_selected_name(event: RecordedEvent, names: Collection[str] | None) -> bool:
    """Return whether an event has one of the selected names."""
    return names is None or format_event_name(event.envelope.type) in names


def format_line(stored: bytes) -> bytes:
    """Return stored bytes as one line; bytes of foreign origin may contain line breaks."""
    return (json.dumps(json.loads(stored)).encode() if b"\n" in stored else stored) + b"\n"


def _create_page_response(
    head: SessionPageHead | TenantPageHead,
    stored: Sequence[bytes],
    headers: dict[str, str] | None = None,
) -> Response:
    """Return a page that contains stored bytes unchanged."""
    fields = head.model_dump_json().encode().removesuffix(b"}")
    body = fields + b',"events":[' + b",".join(stored) + b"]}"
    return Response(body, headers=headers, media_type=JSON_MEDIA_TYPE)


StoredQuery = Annotated[
    bool, Query(description="Whether an audit asks for the stored bytes of withheld texts")
]

ExportFormat = Literal["ndjson", "chat", "parquet", "bundle"]


@dataclass(frozen=True, slots=True)
class ExportWriter:
    """One export format of a session."""

    media_type: str
    content: Mapping[str, object]
    """How the OpenAPI document describes the body."""
    suffix: str
    write: Callable[[ExportSource], AsyncGenerator[bytes]]


async def write_lines(source: ExportSource) -> AsyncGenerator[bytes]:
    """Yield the events as lines."""
    async for page in source.iterate_pages():
        yield b"".join(source.format_event(each) + b"\n" for each in page)


EXPORT_WRITERS: Final[Mapping[ExportFormat, ExportWriter]] = {
    "ndjson": ExportWriter(
        NDJSON_MEDIA_TYPE, refer_to_component("StoredEvent"), "ndjson", write_lines
    ),
    "chat": ExportWriter(
        "text/markdown; charset=utf-8", {"schema": {"type": "string"}}, "md", export_markdown
    ),
    "parquet": ExportWriter(
        "application/vnd.apache.parquet", BINARY_CONTENT, "parquet", export_parquet
    ),
    "bundle": ExportWriter("application/zip", BINARY_CONTENT, "zip", export_zip),
}


@router.get(
    "/v1/sessions/{session}/export",
    response_class=Response,
    responses={
        200: {"content": {form.media_type: form.content for form in EXPORT_WRITERS.values()}}
    },
    summary="Export a session",
)
async def export_session(
    session: str,
    tenant: RequestTenant,
    deps: Dependencies,
    format: Annotated[ExportFormat, Query(description="The export format")] = "ndjson",  # noqa: A002 - the name of the parameter
    *,
    stored: StoredQuery = False,
) -> StreamingResponse:
    """Stream all events of a session in the requested format.

    A bundle has all events as they are stored, since its recipient checks them.
    """
    if format == "parquet":
        import_pyarrow()
    last, writer = await _load_last_event(deps, tenant, session), EXPORT_WRITERS[format]
    at, records = (
        format_rfc3339(deps.command_handler.clock()),
        SessionRecordLoader(deps.command_handler),
    )
    redacted = RedactedTurns() if stored else await _load_export_redactions(deps, tenant, last)
    source = ExportSource(deps.log, records, (tenant, session), last, at, redacted)
    headers = {"Content-Disposition": f'attachment; filename="{session}.{writer.suffix}"'}
    if last:
        headers["ETag"] = format_etag(last.sequence)
    return StreamingResponse(writer.write(source), headers=headers, media_type=writer.media_type)


async def _load_export_redactions(
    deps: GatewayDependencies, tenant: str, last: RecordedEvent | None
) -> RedactedTurns:
    """Return the redactions of the session; of all sessions where it cannot be read."""
    if last is not None:
        with suppress(Corrupt):
            return await load_session_redactions(deps.log, last)
    return await deps.redactions.load_redactions(deps.log, tenant)


async def _load_last_event(
    deps: GatewayDependencies, tenant: str, session: str
) -> RecordedEvent | None:
    """Return the session's last event, or None when it cannot be read."""
    try:
        return await deps.command_handler.load_last_event(tenant, session)
    except Corrupt:
        return None
