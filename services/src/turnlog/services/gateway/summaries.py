from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.memory import HistorySummarised
from turnlog.projections.blueprint.storable import MAX_INT
from turnlog.projections.session.memory_commands import PurgeMemory, UndoSummary
from turnlog.services.gateway.caller import AskedBy
from turnlog.services.gateway.commands import act
from turnlog.services.gateway.desk import AtDesk, Tenant
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.payloads.memory import SummariesView, SummaryView, TurnsView
from turnlog.services.gateway.payloads.turns import Acted, plain

router = APIRouter()

SequenceInPath = Annotated[int, Path(ge=1, le=MAX_INT)]


@router.get("/v1/sessions/{session}/summaries", summary="Summaries that stand")
async def show_summaries(
    session: str, tenant: Tenant, desk: AtDesk, response: Response
) -> SummariesView:
    """Return the active summaries of older turns, and the last purged turn."""
    state = await desk.sessions.load_open(tenant, session)
    places = [each.said.place for each in state.summaries]
    events = await desk.log.at(tenant, places) if places else ()
    stamp(response, state.head.sequence)
    return SummariesView(
        session=session,
        sequence=state.head.sequence,
        summaries=tuple(map(_view, events)),
        purged=state.purged,
    )


def _view(recorded: Recorded) -> SummaryView:
    made = recorded.event
    if not isinstance(made, HistorySummarised):
        raise Corrupt(f"event {recorded.sequence}", "it holds no summary")
    return SummaryView(
        sequence=recorded.sequence,
        view=made.view,
        turns=tuple(TurnsView(first=each.first, last=each.last) for each in made.turns),
        former=made.former,
        phases=made.phases,
        text=plain(made.summary),
        call=made.call,
        inputs=made.inputs,
        model=made.model,
        micro_dollars=made.cost.micro_dollars,
        at=recorded.envelope.time,
    )


@router.post("/v1/sessions/{session}/summaries/{sequence}/undo", summary="Undo a summary")
async def undo_summary(
    session: str, sequence: SequenceInPath, asked: AskedBy, desk: AtDesk, response: Response
) -> Acted:
    """Undo a summary: later windows show the turns it replaced; the log keeps the summary."""
    return await act(desk, asked, session, UndoSummary(sequence), None, response)


@router.post("/v1/sessions/{session}/purge", summary="Purge the memory")
async def purge_memory(session: str, asked: AskedBy, desk: AtDesk, response: Response) -> Acted:
    """Exclude all turns so far from later windows; the log keeps them."""
    return await act(desk, asked, session, PurgeMemory(), None, response)
