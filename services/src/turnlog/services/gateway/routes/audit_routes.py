"""Routes for the audit: verify a session or the whole log, explain a call, and compare two.

`verify` answers are claims of this service; a client that does not trust it exports the log and
verifies the export itself. `why` and `diff` are computed from the events of the sessions and of the
segment library, and contain no text but that of the turn.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import asdict
from itertools import chain
from typing import Annotated, Final, assert_never, get_args

from fastapi import APIRouter, Path, Query, Response
from starlette.responses import StreamingResponse

from turnlog.events.content import SHA256_PATTERN
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused, StreamHole, Unavailable
from turnlog.events.ids import ID_PATTERN
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.segment_events import SEGMENT_FAMILY
from turnlog.projections.audit.diff.call_diff import CallDiff, compare_calls
from turnlog.projections.audit.explain.call_snapshot import build_call_snapshot
from turnlog.projections.audit.explain.turn_explanation import (
    TurnExplanation,
    explain_call,
    explain_turn,
)
from turnlog.projections.audit.verify.hash_chain import WitnessedHead
from turnlog.projections.audit.verify.signed_checkpoints import AuditCheckpoint
from turnlog.projections.blueprint.storable_json import MAX_INT
from turnlog.projections.prompt.sources.segment_layers import list_segments
from turnlog.projections.store.read.read_your_writes import wait_until_folded
from turnlog.services.api.verify_payloads import (
    ChildVerificationView,
    TotalsView,
    VerificationView,
    VerifyFindingLine,
    VerifyProgressLine,
    VerifySummaryLine,
)
from turnlog.services.audit.verify_service import (
    LocatedFinding,
    VerifyOutcome,
    VerifyProgress,
    VerifyService,
    VerifyStep,
)
from turnlog.services.gateway.dependencies import (
    Dependencies,
    GatewayDependencies,
    RequestTenant,
    check_log_scan_slot,
    stream_in_log_scan_slot,
)
from turnlog.services.gateway.http.component_schemas import describe_lines
from turnlog.services.gateway.http.headers import NDJSON_MEDIA_TYPE, set_etag

router = APIRouter()

VERIFY_LOG_PATH: Final = "/v1/verify"

MAX_CHECKPOINT_BYTES: Final = 64 * 1024 * 1024
"""The maximum size of a checkpoint in bytes, enough for half a million sessions."""

CATCH_UP_SECONDS: Final = 0.5
"""Seconds that the read models get to catch up; the log is verified anyway."""

PROGRESS_INTERVAL_SECONDS: Final = 0.25
"""Seconds between two progress lines."""

VerifyLine = VerifyProgressLine | VerifyFindingLine | VerifySummaryLine

_VERIFY_RESPONSES: Final[dict[int | str, dict[str, object]]] = {
    200: {"content": {NDJSON_MEDIA_TYPE: describe_lines("kind", *get_args(VerifyLine))}}
}


def _create_verify_service(deps: GatewayDependencies, tenant: str) -> VerifyService:
    by = deps.open_verifier
    return VerifyService(
        tenant, deps.command_handler, deps.segment_service.log, deps.store, open_verifier=by
    )


@router.get("/v1/sessions/{session}/verify", summary="Verify a session")
async def verify_session(
    session: str,
    tenant: RequestTenant,
    deps: Dependencies,
    response: Response,
    noted: Annotated[
        int | None,
        Query(ge=1, le=MAX_INT, description="A sequence of the session whose head was noted"),
    ] = None,
    head: Annotated[
        str | None,
        Query(pattern=SHA256_PATTERN, description="The `head` that was noted at that sequence"),
    ] = None,
) -> VerificationView:
    """Verify the hash chain, sequences, answers, blobs and totals of a session.

    Every prompt is also reproduced in two ways, and so are those of its child sessions. With a
    noted head, it is also verified that no event was removed or rewritten.
    """
    if (noted is None) != (head is None):
        detail = "`noted` and `head` go together"
        raise Refused(
            "invalid", detail, field="noted" if noted is None else "head", fix="send both"
        )
    witness = WitnessedHead(noted, head) if noted is not None and head is not None else None
    await _wait_for_projection(deps, tenant, session)
    verifying = _create_verify_service(deps, tenant)
    report = await verifying.verify_session(session, witness)
    children = await verifying.verify_children(report)
    sequence = report.head.sequence if report.head else 0
    set_etag(response, sequence)
    return VerificationView(
        session=session,
        sequence=sequence,
        head=report.head.hash if report.head else None,
        verified=report.is_sound and all(child.is_sound for child in children.values()),
        **asdict(report.verdicts),
        events=report.events,
        prompts=report.prompts,
        log=TotalsView.model_validate(report.totals),
        findings=report.findings,
        children=tuple(
            ChildVerificationView(
                session=name,
                verified=child.is_sound,
                prompts=child.prompts,
                findings=child.findings,
            )
            for name, child in children.items()
        ),
    )


async def _wait_for_projection(deps: GatewayDependencies, tenant: str, session: str) -> None:
    """Give the read models some time to reach the end of the session, if it can be read."""
    with suppress(Corrupt, Refused, Unavailable):
        last = (await deps.command_handler.load_last_event(tenant, session)).sequence
        await wait_until_folded(
            deps.store, deps.projection_signal, tenant, session, last, within=CATCH_UP_SECONDS
        )


@router.get(
    VERIFY_LOG_PATH,
    response_model=VerifyLine,
    response_class=StreamingResponse,
    responses=_VERIFY_RESPONSES,
    summary="Verify the log",
)
async def verify_log(tenant: RequestTenant, deps: Dependencies) -> StreamingResponse:
    """Verify all sessions and the segment library; stream progress and findings, then a summary."""
    return _stream_verification(deps, tenant, None)


@router.post(
    VERIFY_LOG_PATH,
    response_model=VerifyLine,
    response_class=StreamingResponse,
    responses=_VERIFY_RESPONSES,
    summary="Verify the log against a checkpoint",
)
async def verify_log_against_checkpoint(
    tenant: RequestTenant, deps: Dependencies, checkpoint: AuditCheckpoint
) -> StreamingResponse:
    """Verify the log, and that it still contains every head of a checkpoint.

    The client checks the signature of the checkpoint itself.
    """
    if checkpoint.tenant != tenant:
        detail = f"the checkpoint is of tenant {checkpoint.tenant[:80]!r}"
        raise Refused("invalid", detail, field="tenant", fix="ask the service of that tenant")
    return _stream_verification(deps, tenant, checkpoint)


def _stream_verification(
    deps: GatewayDependencies, tenant: str, witness: AuditCheckpoint | None
) -> StreamingResponse:
    check_log_scan_slot(deps)
    lines = _iterate_verify_lines(deps, _create_verify_service(deps, tenant), witness)
    return StreamingResponse(stream_in_log_scan_slot(deps, lines), media_type=NDJSON_MEDIA_TYPE)


@router.get("/v1/checkpoint", summary="Create a checkpoint of all sessions")
async def show_checkpoint(tenant: RequestTenant, deps: Dependencies) -> AuditCheckpoint:
    """Return a checkpoint of all sessions' heads, to be signed and stored.

    It is refused when a hash chain is broken.
    """
    check_log_scan_slot(deps)
    async with deps.log_scan_slots:
        return await _create_verify_service(deps, tenant).create_checkpoint()


async def _iterate_verify_lines(
    deps: GatewayDependencies, auditing: VerifyService, witness: AuditCheckpoint | None
) -> AsyncGenerator[bytes]:
    builder = _VerifyLineBuilder(time.monotonic())
    async with aclosing(auditing.verify_log(witness)) as steps:
        async for step in steps:
            match step:
                case LocatedFinding(hole=StreamHole() as hole) if deps.record_watch is not None:
                    await deps.record_watch.report_hole(hole)
                case _:
                    pass
            if line := builder.build_line(step, time.monotonic()):
                yield line.model_dump_json().encode() + b"\n"


class _VerifyLineBuilder:
    """Builds response lines from the steps of a verification.

    It remembers the time of the last progress line and the first finding.
    """

    def __init__(self, began: float) -> None:
        self.started_at = self.stage_started_at = self.last_progress_at = began
        self.stage = ""
        self.first_finding: VerifyFindingLine | None = None

    def build_line(self, step: VerifyStep, now: float) -> VerifyLine | None:
        """Return the line for a step; None for progress that follows too soon."""
        match step:
            case VerifyProgress():
                return self._build_progress_line(step, now)
            case LocatedFinding(log=log, key=key, finding=finding):
                session = key[1] if key else None
                line = VerifyFindingLine(log=log, session=session, finding=finding)
                self.first_finding = self.first_finding or line
                return line
            case VerifyOutcome():
                return self._build_summary_line(step, now)
            case _ as never:
                assert_never(never)

    def _build_progress_line(self, step: VerifyProgress, now: float) -> VerifyProgressLine | None:
        if step.stage != self.stage:
            self.stage, self.stage_started_at = step.stage, self.last_progress_at
        if now - self.last_progress_at < PROGRESS_INTERVAL_SECONDS:
            return None
        self.last_progress_at = now
        rate = step.done / max(now - self.stage_started_at, PROGRESS_INTERVAL_SECONDS)
        return VerifyProgressLine(stage=step.stage, done=step.done, goal=step.goal, rate=rate)

    def _build_summary_line(self, over: VerifyOutcome, now: float) -> VerifySummaryLine:
        tally = over.tally
        return VerifySummaryLine(
            verified=not tally.findings,
            **asdict(tally.verdicts),
            sessions=tally.sessions,
            unsound=len(tally.unsound),
            events=over.events,
            seconds=now - self.started_at,
            prompts=tally.prompts,
            log=TotalsView.model_validate(tally.totals),
            findings=tally.findings,
            first=self.first_finding,
        )


WhyTurnPath = Annotated[int, Path(ge=1, le=MAX_INT, description="The turn number")]


@router.get("/v1/sessions/{session}/calls/{call}/why", summary="Explain a call")
async def show_why(
    session: str, call: str, tenant: RequestTenant, deps: Dependencies, response: Response
) -> TurnExplanation:
    """Return each part of a call's prompt with its causing events, and the call's effects."""
    explaining = deps.create_explainer(tenant)
    known = await explaining.load_evidence(session, [call])
    set_etag(response, known.end)
    segment_events = await load_segment_events(deps, tenant, known.events)
    return await explaining.compute_answer(
        {session: known}, lambda evidence: explain_call(evidence[session], call, segment_events)
    )


@router.get("/v1/sessions/{session}/turns/{turn}/why", summary="Explain a turn")
async def show_why_of_turn(
    session: str, turn: WhyTurnPath, tenant: RequestTenant, deps: Dependencies, response: Response
) -> TurnExplanation:
    """Return the explanation of the call that answered a turn, or of its last call."""
    explaining = deps.create_explainer(tenant)
    known = await explaining.load_turn_evidence(session, turn)
    set_etag(response, known.end)
    segment_events = await load_segment_events(deps, tenant, known.events)
    return await explaining.compute_answer(
        {session: known}, lambda evidence: explain_turn(evidence[session], turn, segment_events)
    )


async def load_segment_events(
    deps: GatewayDependencies, tenant: str, events: Iterable[RecordedEvent]
) -> Sequence[RecordedEvent]:
    """Return the events of the segment library, if any of these calls used segments."""
    calls = (each.event for each in events if isinstance(each.event, ContextAssembled))
    if not any(list_segments(call.manifest) for call in calls):
        return ()
    last = await deps.segment_service.log.read_last_event(tenant, SEGMENT_FAMILY)
    return (
        await deps.segment_service.log.read_range(tenant, SEGMENT_FAMILY, None, last)
        if last
        else ()
    )


OtherSessionQuery = Annotated[
    str | None,
    Query(
        pattern=f"^{ID_PATTERN}$", description="The session of the second call; by default the same"
    ),
]


@router.get("/v1/sessions/{session}/calls/{call}/diff/{second}", summary="Compare two calls")
async def show_diff(
    session: str,
    call: str,
    second: str,
    tenant: RequestTenant,
    deps: Dependencies,
    response: Response,
    other: OtherSessionQuery = None,
) -> CallDiff:
    """Return what was added, removed, changed, cut or moved, with the rule and causes of each.

    The calls are of one session or of two sessions of the tenant.
    """
    explaining, other_session = deps.create_explainer(tenant), other or session
    calls_by_session = {session: [call]}
    calls_by_session[other_session] = [*calls_by_session.get(other_session, ()), second]
    evidence = {
        name: await explaining.load_evidence(name, calls)
        for name, calls in calls_by_session.items()
    }
    set_etag(response, evidence[session].end)
    edits = await load_segment_events(
        deps, tenant, chain(*(known.events for known in evidence.values()))
    )
    return await explaining.compute_answer(
        evidence,
        lambda known: compare_calls(
            build_call_snapshot(known[session], call, edits),
            build_call_snapshot(known[other_session], second, edits),
        ),
    )
