from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.storable import MAX_INT
from turnlog.projections.session.state import SessionState
from turnlog.projections.store.reach import wait_until_folded
from turnlog.services.gateway.desk import GatewayDependencies
from turnlog.services.runtime.past import refuse_future

MIN_SEQUENCE_FIELD: Final = "min_sequence"

MinSequenceQuery = Annotated[
    int | None,
    Query(ge=1, le=MAX_INT, description="Wait until the read models hold this sequence"),
]


async def wait_for_read_models(deps: GatewayDependencies, state: SessionState, sequence: int) -> None:
    """Wait until the read models contain a sequence of the session (read your writes).

    Raises `Refused` for a sequence that the session has not reached, and `behind` (504) after the
    timeout; stale rows are never returned.
    """
    if sequence > state.head.sequence:
        last = await deps.sessions.load_last_event(state.tenant, state.session, sequence)
        refuse_future(sequence, last.sequence, MIN_SEQUENCE_FIELD)
    place = (state.tenant, state.session, sequence)
    if not await wait_until_folded(deps.store, deps.projection_signal, *place, within=deps.read_model_timeout):
        detail = f"the read models have not come to sequence {sequence} yet"
        raise Refused("behind", detail, field=MIN_SEQUENCE_FIELD, fix="ask again")
