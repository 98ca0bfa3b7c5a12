from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.storable import MAX_INT
from turnlog.projections.session.state import SessionState
from turnlog.projections.store.reach import reached
from turnlog.services.gateway.desk import Desk
from turnlog.services.runtime.past import refuse_future

FIELD: Final = "min_sequence"

MinSequence = Annotated[
    int | None,
    Query(ge=1, le=MAX_INT, description="Wait until the read models hold this sequence"),
]


async def read_up_to(desk: Desk, state: SessionState, sequence: int) -> None:
    """Wait until the read models contain a sequence of the session (read your writes).

    Raises `Refused` for a sequence that the session has not reached, and `behind` (504) after the
    timeout; stale rows are never returned.
    """
    if sequence > state.head.sequence:
        last = await desk.sessions.last(state.tenant, state.session, sequence)
        refuse_future(sequence, last.sequence, FIELD)
    place = (state.tenant, state.session, sequence)
    if not await reached(desk.store, desk.bell, *place, within=desk.patience):
        detail = f"the read models have not come to sequence {sequence} yet"
        raise Refused("behind", detail, field=FIELD, fix="ask again")
