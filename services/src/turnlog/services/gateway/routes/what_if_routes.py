"""The what-if route: recorded calls are assembled again under a hypothetical change.

The files of another blueprint come in the request body, because the gateway cannot read the
client's folder. The response is NDJSON with one line per session, sent when the session is done, so
the lines also show progress. A session that cannot be evaluated gets a line of its own and stops no
other. Nothing is written and no model is called.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Final, TypedDict

from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.attempt_figures import TokenUsage
from turnlog.events.model.session_events import BlueprintMoved, BlueprintRef, SessionOpened
from turnlog.projections.audit.what_if.hypothetical_change import WhatIfChange, WhatIfFolder
from turnlog.projections.audit.what_if.reassembled_calls import ReassembledCall, rebuild_calls
from turnlog.projections.audit.what_if.what_if_report import (
    AlterationCount,
    PromptTotals,
    RefusalCount,
    WhatIfReport,
    build_what_if_report,
    merge_reports,
)
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_blueprint_digest
from turnlog.projections.prompt.budget.budget_error import BudgetExceeded
from turnlog.projections.read_models.call_costs import is_guessed_price
from turnlog.projections.store.read.read_your_writes import wait_for_sequence
from turnlog.projections.store.read.session_queries import SessionQuery, list_sessions
from turnlog.services.api.payload_models import ResponseModel
from turnlog.services.api.what_if_payloads import (
    WHAT_IF_LINES,
    CallRefusalView,
    LayerSizeView,
    PromptTotalsView,
    WhatIfBlueprint,
    WhatIfCall,
    WhatIfFailedSession,
    WhatIfLine,
    WhatIfRequest,
    WhatIfSession,
    WhatIfStart,
    WhatIfSummary,
)
from turnlog.services.audit.session_record import SessionRecord, SessionRecordLoader
from turnlog.services.blueprints.blueprint_files import BlueprintFiles
from turnlog.services.blueprints.folder_files import UploadedFolder
from turnlog.services.blueprints.model_prices import PriceTable, compute_cost
from turnlog.services.extensions.plugins import check_plugins_registered, collect_installed
from turnlog.services.extensions.tokenizers import load_vocabularies
from turnlog.services.gateway.dependencies import (
    Dependencies,
    GatewayDependencies,
    RequestTenant,
    check_log_scan_slot,
    stream_in_log_scan_slot,
)
from turnlog.services.gateway.http.component_schemas import describe_lines
from turnlog.services.gateway.http.headers import NDJSON_MEDIA_TYPE
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.platform.projection_lag import measure_projection_lag

router = APIRouter()

WHAT_IF_PATH: Final = "/v1/what-if"

_SESSION_PAGE_SIZE: Final = 500


@router.post(
    WHAT_IF_PATH,
    response_model=WhatIfLine,
    response_class=Response,
    responses={200: {"content": {NDJSON_MEDIA_TYPE: describe_lines("line", *WHAT_IF_LINES)}}},
    summary="Evaluate another blueprint, budget or model",
)
async def run_what_if(
    tenant: RequestTenant, deps: Dependencies, form: WhatIfRequest
) -> StreamingResponse:
    """Assemble recorded calls again under a change.

    Stream one line per session, then the totals.
    """
    check_log_scan_slot(deps)
    change = await _create_change(deps, form)
    behind = 0 if form.sessions else await _measure_projection_lag(deps, tenant)
    named = tuple(dict.fromkeys(form.sessions or await _list_session_ids(deps, tenant, change)))
    begun = _create_start_line(form, change, len(named), behind)
    lines = _iterate_what_if_lines(deps, tenant, begun, change, named)
    return StreamingResponse(stream_in_log_scan_slot(deps, lines), media_type=NDJSON_MEDIA_TYPE)


async def _create_change(deps: GatewayDependencies, form: WhatIfRequest) -> WhatIfChange:
    """Return the change to evaluate; raises `FaultyBlueprint` with all faults of the blueprint."""
    if form.blueprint is None:
        if form.budget is None and form.model is None:
            fix = "send a blueprint, a budget or a model"
            raise Refused("invalid", "the request names no change", field="blueprint", fix=fix)
        return await _build_change(deps, form, deps.blueprint_folders, None)
    files = BlueprintFiles(
        UploadedFolder(form.blueprint.blueprint, form.blueprint.files),
        deps.blueprint_folders.configured,
    )
    blueprint = files.read_blueprint()
    check_plugins_registered(blueprint)
    await load_vocabularies(blueprint)
    return await _build_change(deps, form, files, blueprint)


async def _build_change(
    deps: GatewayDependencies,
    form: WhatIfRequest,
    folder: WhatIfFolder,
    blueprint: Blueprint | None,
) -> WhatIfChange:
    formats = await deps.prompt_inputs.response_formats.load_table()
    return WhatIfChange(
        folder,
        blueprint,
        form.budget,
        form.model,
        deps.settings.model,
        formats.choose_request,
    )


async def _measure_projection_lag(deps: GatewayDependencies, tenant: str) -> int:
    """Return by how many events the read models lag, after giving them time to catch up."""
    end = await deps.log.get_last_stream_sequence(tenant)

    async def look() -> int:
        return end - await measure_projection_lag(deps.log, deps.store, tenant)

    level = await wait_for_sequence(
        deps.projection_signal, look, end, within=deps.read_model_timeout
    )
    return 0 if level else await measure_projection_lag(deps.log, deps.store, tenant)


async def _list_session_ids(
    deps: GatewayDependencies, tenant: str, change: WhatIfChange
) -> Sequence[str]:
    query = SessionQuery(blueprint=change.blueprint.blueprint if change.blueprint else None)
    named: list[str] = []
    before: int | None = None
    while True:
        async with deps.store.open_reader() as connection:
            page = await list_sessions(
                connection, tenant, query, limit=_SESSION_PAGE_SIZE, before=before
            )
        named += [row.session for row in page.sessions]
        before = page.before
        if before is None:
            return named


async def _iterate_what_if_lines(
    deps: GatewayDependencies,
    tenant: str,
    start: WhatIfStart,
    change: WhatIfChange,
    session_ids: Sequence[str],
) -> AsyncGenerator[bytes]:
    yield _encode_line(start)
    prices, reports = await deps.prices.load_table(), list[WhatIfReport]()
    async with aclosing(
        _iterate_session_results(deps, tenant, change, session_ids, prices)
    ) as results:
        async for line, report in results:
            reports += [report] if report else []
            yield _encode_line(line)
    total = compute_figures(merge_reports(reports), prices)
    evaluated = len(reports)
    yield _encode_line(
        WhatIfSummary(**total, sessions=evaluated, untold=len(session_ids) - evaluated)
    )


async def _iterate_session_results(
    deps: GatewayDependencies,
    tenant: str,
    change: WhatIfChange,
    session_ids: Iterable[str],
    prices: PriceTable,
) -> AsyncGenerator[tuple[WhatIfSession | WhatIfFailedSession, WhatIfReport | None]]:
    records = SessionRecordLoader(deps.command_handler)
    for session in session_ids:
        try:
            record = await records.load_record(tenant, session)
            blueprint, found = _find_blueprint(record), await _compute_report(record, change)
        except (Corrupt, Refused) as error:
            yield _create_failure_line(session, error), None
        else:
            yield _create_session_line(record, blueprint, found, prices), found


async def _compute_report(record: SessionRecord, change: WhatIfChange) -> WhatIfReport:
    """Evaluate a session in a thread, because a long one takes seconds."""
    calls = rebuild_calls(record.events, record.blobs, collect_installed(), change)
    try:
        return await run_in_thread(lambda: build_what_if_report(calls))
    except (Corrupt, Refused):
        raise
    except Exception as error:  # an altered record may contain anything
        raise Corrupt("the record", f"it cannot be assembled again: {error!r}") from error


def _find_blueprint(record: SessionRecord) -> BlueprintRef:
    for recorded in reversed(record.events):
        if isinstance(recorded.event, SessionOpened | BlueprintMoved):
            return recorded.event.blueprint
    raise Corrupt("event 1", "it opens no session that this version knows of")


def _create_session_line(
    record: SessionRecord, blueprint: BlueprintRef, found: WhatIfReport, prices: PriceTable
) -> WhatIfSession:
    return WhatIfSession(
        **compute_figures(found, prices),
        session=record.events[-1].session,
        sequence=record.events[-1].sequence,
        blueprint=blueprint.name,
        version=blueprint.version,
        worst=tuple(create_call_view(each) for each in found.worst),
        badness=found.severity,
    )


def _create_failure_line(session: str, error: Corrupt | Refused) -> WhatIfFailedSession:
    match error:
        case Refused(code=code, detail=detail):
            return WhatIfFailedSession(session=session, code=code, detail=detail)
        case Corrupt():
            return WhatIfFailedSession(session=session, code="corrupt", detail=str(error))


def _create_start_line(
    form: WhatIfRequest, change: WhatIfChange, number: int, projection_lag: int
) -> WhatIfStart:
    changed = change.blueprint
    blueprint = changed and WhatIfBlueprint(
        blueprint=changed.blueprint,
        version=changed.version,
        digest=compute_blueprint_digest(changed),
    )
    return WhatIfStart(
        sessions=number,
        behind=projection_lag,
        blueprint=blueprint,
        budget=form.budget,
        model=form.model,
    )


def _encode_line(answer: ResponseModel) -> bytes:
    return answer.model_dump_json().encode() + b"\n"


class WhatIfFigures(TypedDict):
    """The fields that all what-if totals have."""

    calls: int
    again: int
    same: int
    before: PromptTotalsView
    after: PromptTotalsView
    altered: tuple[AlterationCount, ...]
    refused: tuple[RefusalCount, ...]


def compute_figures(found: WhatIfReport, prices: PriceTable) -> WhatIfFigures:
    """Return the totals of a report, with the prices of both sides."""
    return WhatIfFigures(
        calls=found.calls,
        again=found.again,
        same=found.same,
        before=_create_totals_view(found.before, prices),
        after=_create_totals_view(found.after, prices),
        altered=found.altered,
        refused=found.refused,
    )


def _create_totals_view(side: PromptTotals, prices: PriceTable) -> PromptTotalsView:
    costs = [
        compute_cost(
            model, TokenUsage(known="estimated", input_tokens=tokens, output_tokens=0), prices
        )
        for model, tokens in side.models.items()
    ]
    return PromptTotalsView(
        tokens=side.tokens,
        largest=side.largest,
        prefix=side.prefix,
        models=side.models,
        counters=side.counters,
        micro_dollars=sum(cost.micro_dollars or 0 for cost in costs),
        guessed=any(is_guessed_price(cost.price) for cost in costs),
    )


def create_call_view(each: ReassembledCall) -> WhatIfCall:
    """Return one call with its prompt before and after the change."""
    return WhatIfCall(
        call=each.call,
        turn=each.turn,
        sequence=each.sequence,
        before=each.before,
        after=each.after,
        altered=each.altered,
        refused=_create_refusal_view(each.refused) if each.refused else None,
    )


def _create_refusal_view(refused: Refused) -> CallRefusalView:
    view = CallRefusalView(
        code=refused.code, detail=refused.detail, field=refused.field, fix=refused.fix
    )
    if not isinstance(refused, BudgetExceeded):
        return view
    kept = tuple(
        LayerSizeView(layer=each.layer, tokens=each.tokens) for each in refused.required_layers
    )
    budget_fields = {
        "over": refused.tokens - refused.limit,
        "limit": refused.limit,
        "section": refused.of.section,
        "component": refused.of.component,
        "kept": kept,
    }
    return view.model_copy(update=budget_fields)
