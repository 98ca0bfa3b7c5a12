"""What-if: recorded calls are assembled again under a hypothetical change.

The files of another blueprint come with the request, because this process cannot read its caller's
folder. A session that cannot be evaluated gets a line of its own and stops no other. Nothing is
written and no model is called.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from typing import Final, TypedDict

from turnlog.contract.prompt_requests import WhatIfRequest
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.session_events import BlueprintMoved, BlueprintRef, SessionOpened
from turnlog.projections.audit.what_if.hypothetical_change import WhatIfChange, WhatIfFolder
from turnlog.projections.audit.what_if.ladder_change import check_step_names
from turnlog.projections.audit.what_if.reassembled_calls import (
    ReassembledCall,
    rebuild_calls,
)
from turnlog.projections.audit.what_if.what_if_report import (
    AlterationCount,
    ComparedPrompts,
    PricedPrompt,
    PromptTotals,
    RefusalCount,
    WhatIfReport,
    build_what_if_report,
    merge_reports,
)
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_blueprint_digest
from turnlog.projections.prompt.budget.budget_error import BudgetExceeded
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.session_queries import SessionQuery, list_session_ids
from turnlog.services.api.what_if_payloads import (
    CallRefusalView,
    LayerSizeView,
    PromptTotalsView,
    WhatIfBlueprint,
    WhatIfCall,
    WhatIfComparison,
    WhatIfFailedSession,
    WhatIfLine,
    WhatIfPrompt,
    WhatIfSession,
    WhatIfStart,
    WhatIfSummary,
)
from turnlog.services.audit.session_record import SessionRecord, SessionRecordLoader
from turnlog.services.blueprints.blueprint_files import BlueprintFiles
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.blueprints.folder_files import UploadedFolder
from turnlog.services.command_handling.row_waits import RowWaits
from turnlog.services.extensions.plugins import check_plugins_registered, collect_installed
from turnlog.services.extensions.tokenizers import load_vocabularies
from turnlog.services.model_facts.model_dialects import ModelDialects
from turnlog.services.model_facts.model_prices import ModelPrices
from turnlog.services.model_facts.prompt_pricing import PromptPricing
from turnlog.services.model_facts.response_formats import ResponseFormats
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.use_cases.record.log_scan_slots import LogScanSlots

MAX_COMPARED_CALLS: Final = 1_000
"""Calls whose prompts are told one by one, so that a line stays below a megabyte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfEvaluation:
    """Evaluates hypothetical changes over recorded sessions."""

    command_handler: CommandHandler
    blueprint_folders: BlueprintFolders
    store: ReadModelStore
    row_waits: RowWaits
    response_formats: ResponseFormats
    dialects: ModelDialects
    prices: ModelPrices
    log_scan_slots: LogScanSlots
    default_model: str
    """The model of profiles that say `default`."""

    async def evaluate_change(
        self, tenant: str, request: WhatIfRequest, query: SessionQuery
    ) -> AsyncGenerator[WhatIfLine]:
        """Assemble recorded calls again under a change.

        The lines are one for each session, between a first one and the totals. The sessions are
        those that the request names or, where it names none, those of the query.
        """
        if request.sessions and query != SessionQuery():
            detail, fix = "the request names sessions and selects others", "leave one of both out"
            raise Refused("invalid", detail, field="sessions", fix=fix)
        self.log_scan_slots.check_free()
        change = await self._create_change(tenant, request)
        behind = (
            0
            if request.sessions
            else await self.row_waits.measure_remaining_lag(self.command_handler.log, tenant)
        )
        named = tuple(
            dict.fromkeys(request.sessions or await self._list_session_ids(tenant, query, change))
        )
        begun = _create_start_line(request, change, len(named), behind)
        return self.log_scan_slots.stream_in_slot(self._iterate_lines(tenant, begun, change, named))

    async def _create_change(self, tenant: str, request: WhatIfRequest) -> WhatIfChange:
        """Return the change; raises `FaultyBlueprint` with all faults of the blueprint."""
        check_step_names(request.ladder or {})
        if request.blueprint is None:
            if request.budget is None and request.model is None and request.ladder is None:
                fix = "send a blueprint, a budget, a ladder or a model"
                raise Refused("invalid", "the request names no change", field="blueprint", fix=fix)
            folders = self.blueprint_folders.open_tenant(tenant)
            return await self._build_change(request, folders, None)
        files = BlueprintFiles(
            UploadedFolder(request.blueprint.blueprint, request.blueprint.files),
            self.blueprint_folders.configured,
        )
        blueprint = await run_in_thread(files.read_blueprint)
        check_plugins_registered(blueprint)
        await load_vocabularies(blueprint)
        return await self._build_change(request, files, blueprint)

    async def _build_change(
        self, request: WhatIfRequest, folder: WhatIfFolder, blueprint: Blueprint | None
    ) -> WhatIfChange:
        formats = await self.response_formats.load_table()
        dialects = await self.dialects.load_table()
        return WhatIfChange(
            folder=folder,
            blueprint=blueprint,
            budget=request.budget,
            model=request.model,
            ladder=request.ladder,
            default_model=self.default_model,
            choose_output_request=formats.choose_request,
            find_dialect=dialects.find_request_dialect,
        )

    async def _list_session_ids(
        self, tenant: str, query: SessionQuery, change: WhatIfChange
    ) -> Sequence[str]:
        if query.blueprint is None and change.blueprint is not None:
            query = replace(query, blueprint=change.blueprint.blueprint)
        async with self.store.open_reader() as connection:
            return await list_session_ids(connection, tenant, query)

    async def _iterate_lines(
        self, tenant: str, start: WhatIfStart, change: WhatIfChange, session_ids: Sequence[str]
    ) -> AsyncGenerator[WhatIfLine]:
        yield start
        reports = list[WhatIfReport]()
        pricing = PromptPricing(await self.prices.load_table(), await self.dialects.load_table())
        async with aclosing(
            self._iterate_session_results(tenant, change, session_ids, pricing)
        ) as results:
            async for line, report in results:
                reports += [report] if report else []
                yield line
        total = compute_figures(merge_reports(reports))
        evaluated = len(reports)
        yield WhatIfSummary(**total, sessions=evaluated, untold=len(session_ids) - evaluated)

    async def _iterate_session_results(
        self,
        tenant: str,
        change: WhatIfChange,
        session_ids: Sequence[str],
        pricing: PromptPricing,
    ) -> AsyncGenerator[tuple[WhatIfSession | WhatIfFailedSession, WhatIfReport | None]]:
        records = SessionRecordLoader(self.command_handler)
        for session in session_ids:
            try:
                record = await records.load_record(tenant, session)
                blueprint = _find_blueprint(record)
                found = await _compute_report(record, change, pricing)
            except (Corrupt, Refused) as error:
                yield _create_failure_line(session, error), None
            else:
                compared = found.compared[-MAX_COMPARED_CALLS:] if len(session_ids) == 1 else ()
                yield _create_session_line(record, blueprint, found, compared), found


async def _compute_report(
    record: SessionRecord, change: WhatIfChange, pricing: PromptPricing
) -> WhatIfReport:
    """Evaluate a session in a thread, because a long one takes seconds."""
    calls = rebuild_calls(record.events, record.blobs, collect_installed(), change)
    try:
        return await run_in_thread(
            lambda: build_what_if_report(calls, pricing.compute_prompt_price)
        )
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
    record: SessionRecord,
    blueprint: BlueprintRef,
    found: WhatIfReport,
    compared: Sequence[ComparedPrompts],
) -> WhatIfSession:
    return WhatIfSession(
        **compute_figures(found),
        session=record.events[-1].session,
        sequence=record.events[-1].sequence,
        blueprint=blueprint.name,
        version=blueprint.version,
        worst=tuple(create_call_view(each) for each in found.worst),
        compared=tuple(map(_create_comparison, compared)),
        badness=found.severity,
    )


def _create_failure_line(session: str, error: Corrupt | Refused) -> WhatIfFailedSession:
    match error:
        case Refused(code=code, detail=detail):
            return WhatIfFailedSession(session=session, code=code, detail=detail)
        case Corrupt():
            return WhatIfFailedSession(session=session, code="corrupt", detail=str(error))


def _create_start_line(
    request: WhatIfRequest, change: WhatIfChange, number: int, projection_lag: int
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
        budget=request.budget,
        model=request.model,
        ladder=request.ladder,
    )


class WhatIfFigures(TypedDict):
    """The fields that all what-if totals have."""

    calls: int
    again: int
    same: int
    before: PromptTotalsView
    after: PromptTotalsView
    altered: tuple[AlterationCount, ...]
    refused: tuple[RefusalCount, ...]


def compute_figures(found: WhatIfReport) -> WhatIfFigures:
    """Return the totals of a report, for a line."""
    return WhatIfFigures(
        calls=found.calls,
        again=found.again,
        same=found.same,
        before=_create_totals_view(found.before),
        after=_create_totals_view(found.after),
        altered=found.altered,
        refused=found.refused,
    )


def _create_totals_view(side: PromptTotals) -> PromptTotalsView:
    return PromptTotalsView(
        tokens=side.tokens,
        largest=side.largest,
        prefix=side.prefix,
        models=side.models,
        counters=side.counters,
        **asdict(side.price),
    )


def _create_comparison(each: ComparedPrompts) -> WhatIfComparison:
    return WhatIfComparison(
        call=each.call,
        turn=each.turn,
        kind=each.before.size.kind,
        before=_create_prompt_view(each.before),
        after=_create_prompt_view(each.after) if each.after else None,
    )


def _create_prompt_view(prompt: PricedPrompt) -> WhatIfPrompt:
    size, price = prompt.size, prompt.price
    return WhatIfPrompt(
        tokens=size.tokens,
        budget=size.budget,
        components=size.components,
        cut_by=size.cut_by,
        cached_micro_dollars=price.cached_micro_dollars,
        lost_tokens=price.lost_tokens,
        lost_micro_dollars=price.lost_micro_dollars,
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
