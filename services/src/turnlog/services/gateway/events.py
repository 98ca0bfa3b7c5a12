"""Events over HTTP: those of one session, or of all; a page of JSON, lines, or a stream.

What is sent is the stored bytes of each event, so that whoever reads lines can check the chain
by themselves: the SHA-256 of a line is the `prevhash` of the session's next one. Filters are
event names; one that nobody writes is refused, since it would match nothing for ever.
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
    """Which events."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    after: Annotated[int, Field(ge=0, le=MAX_INT)] | None = None
    """Behind which one: a sequence of the session, or a place in the stream for all sessions."""
    types: str | None = None
    """Names parted by commas, `turn-submitted,turn-completed`; without it all."""
    limit: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """Events a page has, or lines at the most."""

    def names(self) -> frozenset[str] | None:
        """Give the names asked for; none is all of them."""
        if self.types is None:
            return None
        names = frozenset(name.strip() for name in self.types.split(","))
        for name in names - set(NAMES):
            detail = f"there is no event {name[:80]!r}"
            raise Refused("unknown-type", detail, field="types", fix=instead_of(name[:80], NAMES))
        return names

    def cursor(self, request: Request) -> str | None:
        """Give where a stream goes on: what a client that comes back says wins."""
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
    """Give a session's events behind a sequence: a page, all of them as lines, or for ever."""
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
    """Give the events of all sessions behind a place in the stream."""
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
    """Tell whether an event is among those asked for."""
    return names is None or name_of(event.envelope.type) in names


def line(stored: bytes) -> bytes:
    """Give stored bytes as one line; what no release wrote may have line breaks, which go."""
    return (json.dumps(json.loads(stored)).encode() if b"\n" in stored else stored) + b"\n"


def _page(
    facts: Mapping[str, object], stored: Sequence[bytes], headers: dict[str, str] | None = None
) -> Response:
    """Put stored bytes into a page as they are."""
    head = json.dumps(facts, separators=(",", ":")).encode().removesuffix(b"}")
    body = head + b',"events":[' + b",".join(stored) + b"]}"
    return Response(body, headers=headers, media_type=JSON)
