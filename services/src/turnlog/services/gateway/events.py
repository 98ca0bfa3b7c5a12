"""Routes for stored events, as JSON pages, NDJSON or a stream, and for exports of a session.

The responses contain the stored bytes of each event, so that a client can check the hash chain
itself: the SHA-256 of a line is the `prevhash` of the session's next event. Unknown event names in
a filter are refused, because they would never match. Exports are streamed while the log is read, so
that long sessions need little memory. A corrupt session is exported as it is stored, because an
auditor needs it most.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from turnlog.events.codec import read
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.kinds import NAMES, name_of
from turnlog.events.log.ports import Raw
from turnlog.projections.blueprint.faults import instead_of
from turnlog.projections.blueprint.storable import MAX_INT
from turnlog.services.gateway.desk import AtDesk, Desk, Tenant
from turnlog.services.gateway.event_stream import session_event_stream, tenant_event_stream
from turnlog.services.gateway.headers import JSON, NDJSON, SSE, accepted, etag, last_event_id
from turnlog.services.runtime.past import refuse_future

router = APIRouter()

PAGE = 100


class Range(BaseModel):
    """The query parameters that select events."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    after: Annotated[int, Field(ge=0, le=MAX_INT)] | None = None
    """A sequence of the session, or a stream sequence for all sessions; later events are returned.
    """
    types: str | None = None
    """Event names separated by commas, such as `turn-submitted,turn-completed`; all by default."""
    limit: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """The maximum number of events in a page, or of lines."""

    def names(self) -> frozenset[str] | None:
        """Return the selected event names, or None for all."""
        if self.types is None:
            return None
        names = frozenset(name.strip() for name in self.types.split(","))
        for name in names - set(NAMES):
            detail = f"there is no event {name[:80]!r}"
            raise Refused("unknown-type", detail, field="types", fix=instead_of(name[:80], NAMES))
        return names

    def cursor(self, request: Request) -> str | None:
        """Return the position to resume from; `Last-Event-ID` takes precedence over `after`."""
        return last_event_id(request) or (None if self.after is None else str(self.after))


InRange = Annotated[Range, Query()]
_FORMS: dict[int | str, dict[str, object]] = {200: {"content": {JSON: {}, NDJSON: {}, SSE: {}}}}


@router.get(
    "/v1/sessions/{session}/events",
    response_class=Response,
    responses=_FORMS,
    summary="Events of a session",
)
async def session_events(
    session: str, tenant: Tenant, desk: AtDesk, asked: InRange, request: Request
) -> Response:
    """Return a session's events after a sequence: one page, all as lines, or a live stream."""
    names = asked.names()
    form = accepted(request, JSON, NDJSON, SSE)
    if form == SSE:
        return await session_event_stream(desk, tenant, session, asked.cursor(request), names)
    last = await desk.sessions.last(tenant, session, asked.after or 0)
    refuse_future(asked.after or 0, last.sequence, "after")
    behind = await desk.sessions.behind(last, asked.after or 0)
    headers = {"ETag": etag(last.sequence)}
    wanted = [event for event in behind if named(event, names)]
    if form == NDJSON:
        lines = b"".join(line(event.stored) for event in wanted[: asked.limit])
        return Response(lines, headers=headers, media_type=NDJSON)
    page = wanted[: asked.limit or PAGE]
    more = len(wanted) > len(page)
    facts = {
        "session": session,
        "sequence": last.sequence,
        "after": page[-1].sequence if more else last.sequence,
        "more": more,
    }
    return _page(facts, [event.stored for event in page], headers)


@router.get(
    "/v1/events", response_class=Response, responses=_FORMS, summary="Events of all sessions"
)
async def tenant_events(tenant: Tenant, desk: AtDesk, asked: InRange, request: Request) -> Response:
    """Return the events of all sessions after a stream sequence."""
    names = asked.names()
    form = accepted(request, JSON, NDJSON, SSE)
    if form == SSE:
        return await tenant_event_stream(desk, tenant, asked.cursor(request), names)
    await _refuse_beyond(desk, tenant, asked.after or 0)
    if form == NDJSON:
        return StreamingResponse(_lines(desk, tenant, asked, names), media_type=NDJSON)
    return await _tenant_page(desk, tenant, asked, names)


async def _refuse_beyond(desk: Desk, tenant: str, place: int) -> None:
    if place and place > await desk.log.end(tenant):
        fix = "go on from the `after` of a page, or from the id of an event of the stream"
        raise Refused("not-there-yet", "the log has no such place", field="after", fix=fix)


async def _tenant_page(
    desk: Desk, tenant: str, asked: Range, names: Collection[str] | None
) -> Response:
    after, limit = asked.after or 0, asked.limit or PAGE
    page: list[bytes] = []
    unreadable: list[int] = []
    async with aclosing(_raws(desk, tenant, after)) as raws:
        async for raw in raws:
            if len(page) == limit:
                return _page({"after": after, "more": True, "unreadable": unreadable}, page)
            after = raw.stream_sequence
            event = _read(raw)
            if event is None:
                unreadable.append(raw.stream_sequence)
            elif named(event, names):
                page.append(raw.stored)
    return _page({"after": after, "more": False, "unreadable": unreadable}, page)


async def _lines(
    desk: Desk, tenant: str, asked: Range, names: Collection[str] | None
) -> AsyncGenerator[bytes]:
    left = asked.limit
    async with aclosing(_raws(desk, tenant, asked.after or 0)) as raws:
        async for raw in raws:
            if left == 0:
                return
            event = _read(raw)
            if event is not None and named(event, names):
                yield line(raw.stored)
                left = None if left is None else left - 1


async def _raws(desk: Desk, tenant: str, after: int) -> AsyncGenerator[Raw]:
    async with aclosing(desk.log.follow(tenant, after, live=False)) as bulks:
        async for bulk in bulks:
            for raw in bulk:
                yield raw


def _read(raw: Raw) -> Recorded | None:
    try:
        return read(raw.stored, raw.stream_sequence)
    except Corrupt:
        return None


def named(event: Recorded, names: Collection[str] | None) -> bool:
    """Return whether an event has one of the selected names."""
    return names is None or name_of(event.envelope.type) in names


def line(stored: bytes) -> bytes:
    """Return stored bytes as one line; bytes of foreign origin may contain line breaks."""
    return (json.dumps(json.loads(stored)).encode() if b"\n" in stored else stored) + b"\n"


def _page(
    facts: Mapping[str, object], stored: Sequence[bytes], headers: dict[str, str] | None = None
) -> Response:
    """Return a page that contains stored bytes unchanged."""
    head = json.dumps(facts, separators=(",", ":")).encode().removesuffix(b"}")
    body = head + b',"events":[' + b",".join(stored) + b"]}"
    return Response(body, headers=headers, media_type=JSON)
