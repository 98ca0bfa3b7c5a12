from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.memory import HistorySummarised
from turnlog.projections.blueprint.storable import MAX_INT
from turnlog.projections.session.memory_commands import PurgeMemory, UndoSummary
from turnlog.services.gateway.caller import CallerIdentity
from turnlog.services.gateway.commands import handle_command
from turnlog.services.gateway.desk import Dependencies, RequestTenant
from turnlog.services.gateway.headers import set_etag
from turnlog.services.gateway.payloads.memory import SummariesView, SummaryView, TurnRangeView
from turnlog.services.gateway.payloads.turns import CommandResult, get_plain_text

summary_router = APIRouter()

SummarySequencePath = Annotated[int, Path(ge=1, le=MAX_INT)]


@summary_router.get("/v1/sessions/{session}/summaries", summary="Summaries that stand")
async def show_summaries(
    session: str, tenant: RequestTenant, deps: Dependencies, response: Response
) -> SummariesView:
    """Return the active summaries of older turns, and the last purged turn."""
    state = await deps.sessions.require_state(tenant, session)
    places = [each.said.place for each in state.summaries]
    events = await deps.log.read_events_at(tenant, places) if places else ()
    set_etag(response, state.head.sequence)
    return SummariesView(
        session=session,
        sequence=state.head.sequence,
        summaries=tuple(map(_create_summary_view, events)),
        purged=state.purged,
    )


def _create_summary_view(recorded: RecordedEvent) -> SummaryView:
    made = recorded.event
    if not isinstance(made, HistorySummarised):
        raise Corrupt(f"event {recorded.sequence}", "it holds no summary")
    return SummaryView(
        sequence=recorded.sequence,
        view=made.view,
        turns=tuple(TurnRangeView(first=each.first, last=each.last) for each in made.turns),
        former=made.former,
        phases=made.phases,
        text=get_plain_text(made.summary),
        call=made.call,
        inputs=made.inputs,
        model=made.model,
        micro_dollars=made.cost.micro_dollars,
        at=recorded.envelope.time,
    )


@summary_router.post("/v1/sessions/{session}/summaries/{sequence}/undo", summary="Undo a summary")
async def undo_summary(
    session: str, sequence: SummarySequencePath, caller: CallerIdentity, deps: Dependencies, response: Response
) -> CommandResult:
    """Undo a summary: later windows show the turns it replaced; the log keeps the summary."""
    return await handle_command(deps, caller, session, UndoSummary(sequence), None, response)


@summary_router.post("/v1/sessions/{session}/purge", summary="Purge the memory")
async def purge_memory(session: str, caller: CallerIdentity, deps: Dependencies, response: Response) -> CommandResult:
    """Exclude all turns so far from later windows; the log keeps them."""
    return await handle_command(deps, caller, session, PurgeMemory(), None, response)
