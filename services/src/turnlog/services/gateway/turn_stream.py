"""The stream of one turn: its reply from the event log and the token stream, as SSE.

The stream subscribes to both sources before it reads either, and joins them by the rules of
`log_token_join`. The cursor is the only state of a client, so any gateway can resume a stream that
another one began. The stream waits for a queued turn. A turn that has ended costs one read of the
log.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from starlette.responses import Response

from turnlog.events.envelope import Recorded
from turnlog.events.errors import Refused
from turnlog.events.log.ports import TokenStream
from turnlog.events.turn import TurnCompleted
from turnlog.projections.session.state import Said, SessionState, TurnRef
from turnlog.projections.session.turns import status_of
from turnlog.services.gateway.desk import Desk
from turnlog.services.gateway.merging import merged
from turnlog.services.gateway.sse import EventStream, framed, pace
from turnlog.services.gateway.turn_cursor import Cursor, bad_cursor, cursor
from turnlog.services.gateway.turn_joining import (
    Record,
    Shown,
    ahead,
    heard,
    learnt,
    recorded,
    resumed,
)
from turnlog.services.runtime.sessions import Done

LOOKS: Final = 10
"""How often a lagging replica of the token stream is read before a cursor is trusted."""
LOOK_AGAIN: Final = 0.1
"""Seconds between two of those reads."""


async def turn_stream(
    desk: Desk, tenant: str, session: str, turn: int, after: str | None
) -> Response:
    """Return the stream of a turn after a cursor, or 204 when the client has had its end."""
    state = await desk.sessions.load(tenant, session, leader=True)
    if state is None:
        raise Refused("unknown-session", "there is no such session", field="session")
    past = await _past(desk, state, _beginning(state, turn))
    record = recorded(Record(turn), past)
    at = resumed(Cursor(turn) if after is None else cursor(after, turn), record)
    if at is None:
        return Response(status_code=204)
    if not isinstance(record.ending, TurnCompleted):
        await _refuse_invented(desk.tokens, state, at, record)
    frames = _frames(desk, past[-1], at, record)
    return EventStream(frames, pace(desk.settings), desk.stopping)


def begun_stream(desk: Desk, done: Done, turn: int) -> Response:
    """Return the stream of a turn that was submitted by this request, which has no past."""
    record = recorded(Record(turn), done.events)
    frames = _frames(desk, done.events[-1], Cursor(turn), record)
    return EventStream(frames, pace(desk.settings), desk.stopping)


def _beginning(state: SessionState, turn: int) -> Said | None:
    """Return the reference to a turn's text, which is in its first event; None when unknown."""
    opened = [each for each in (state.open, *state.waiting) if each and each.turn == turn]
    if opened:
        return opened[0].text
    settled = status_of(state, turn)
    if settled is None:
        raise Refused("unknown-turn", f"there is no turn {turn}", field="turn")
    return settled.text if isinstance(settled, TurnRef) else None


async def _past(desk: Desk, state: SessionState, said: Said | None) -> Sequence[Recorded]:
    """Return the session's events from a text to the head; all of them without a text."""
    places = [state.head.stream_sequence, *([said.place] if said else [])]
    last, *first = await desk.log.at(state.tenant, places)
    before = first[0].head if first else None
    return (*first, *await desk.log.between(state.tenant, state.session, before, last))


async def _refuse_invented(
    tokens: TokenStream, state: SessionState, at: Cursor, record: Record
) -> None:
    """Refuse a cursor that is ahead of the text of its attempt, unless the attempt was abandoned.

    A replica may lag behind the leader: its answer counts once it has the latest token event.
    """
    if at.attempt < record.attempt or at.offset <= len(record.partial):
        return
    newest = await tokens.latest(state.tenant, state.session, at.turn)
    for _ in range(LOOKS):
        held = await tokens.recorded(state.tenant, state.session, at.turn)
        if not ahead(at, (stamped.event for stamped in held)):
            return
        if newest is None or held[-1].at >= newest.at:
            raise bad_cursor(f"attempt {at.attempt} has not said {at.offset} code points")
        await asyncio.sleep(LOOK_AGAIN)


async def _frames(desk: Desk, last: Recorded, at: Cursor, record: Record) -> AsyncGenerator[bytes]:
    at, shown = learnt(at, record)
    for each in shown:
        yield _frame(each)
    if at.end:
        return
    log = desk.log.watch(last.tenant, last.session, last.sequence)
    async with (
        desk.tokens.watch(last.tenant, last.session, at.turn) as tokens,
        aclosing(merged(tokens, log)) as items,
    ):
        async for item in items:
            if isinstance(item, Recorded):
                desk.sessions.note(item)
                record = recorded(record, (item,))
                at, shown = learnt(at, record)
            else:
                at, shown = heard(at, item)
            for each in shown:
                yield _frame(each)
            if at.end:
                return


def _frame(shown: Shown) -> bytes:
    data = json.dumps(shown.data, ensure_ascii=False, separators=(",", ":")).encode()
    return framed(shown.name, data, str(shown.cursor))
