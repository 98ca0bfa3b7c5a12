"""Routes for the audit: verify a session or the whole log, explain a call, and compare two.

`verify` answers are claims of this service; a client that does not trust it exports the log and
verifies the export itself. `why` and `diff` are computed from the events of the sessions and of the
segment library, and contain no text but that of the turn.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import asdict
from typing import Annotated, Final, assert_never

from fastapi import APIRouter, Query, Response
from starlette.responses import StreamingResponse

from turnlog.events.errors import Corrupt, Refused
from turnlog.projections.audit.chain import Noted
from turnlog.projections.audit.checkpoint import Checkpoint
from turnlog.projections.blueprint.storable import MAX_INT
from turnlog.projections.store.reach import reached
from turnlog.services.gateway.desk import AtDesk, Desk, Tenant
from turnlog.services.gateway.few import one_of_few, refuse_more
from turnlog.services.gateway.headers import NDJSON, stamp
from turnlog.services.gateway.payloads.verify import (
    FindingLine,
    FindingView,
    ProgressLine,
    PromptsView,
    SummaryLine,
    TotalsView,
    VerifyView,
)
from turnlog.services.runtime.auditing import Auditing, Over, Progress, Step, Wrong

router = APIRouter()

DIGEST: Final = r"^sha256:[0-9a-f]{64}$"
WHOLE: Final = "/v1/verify"
LARGEST: Final = 64 * 1024 * 1024
"""The maximum size of a checkpoint in bytes, enough for half a million sessions."""
PATIENCE: Final = 0.5
"""Seconds that the read models get to catch up; the log is verified anyway."""
EVERY: Final = 0.25
"""Seconds between two progress lines."""
Line = ProgressLine | FindingLine | SummaryLine
_LINES: Final[dict[int | str, dict[str, object]]] = {
    200: {"content": {NDJSON: {"schema": {"type": "string"}}}}
}


def _auditing(desk: Desk, tenant: str) -> Auditing:
    by = desk.verifiers
    return Auditing(tenant, desk.sessions, desk.shelves.log, desk.store, verifiers=by)


@router.get("/v1/sessions/{session}/verify", summary="Check the record of a session")
async def verify_session(
    session: str,
    tenant: Tenant,
    desk: AtDesk,
    response: Response,
    noted: Annotated[int | None, Query(ge=1, le=MAX_INT, description="A sequence")] = None,
    head: Annotated[
        str | None, Query(pattern=DIGEST, description="The `head` that was noted with it")
    ] = None,
) -> VerifyView:
    """Verify the hash chain, sequences, answers, blobs and totals of a session.

    Every prompt is also reproduced in two ways. With a noted head, it is also verified that no
    event was removed or rewritten.
    """
    if (noted is None) != (head is None):
        detail = "`noted` and `head` go together"
        raise Refused(
            "invalid", detail, field="noted" if noted is None else "head", fix="send both"
        )
    witness = Noted(noted, head) if noted is not None and head is not None else None
    await _drawn_level(desk, tenant, session)
    report = await _auditing(desk, tenant).session(session, witness)
    sequence = report.head.sequence if report.head else 0
    stamp(response, sequence)
    return VerifyView(
        session=session,
        sequence=sequence,
        head=report.head.hash if report.head else None,
        verified=report.sound,
        **asdict(report.verdicts),
        events=report.events,
        prompts=PromptsView.model_validate(report.prompts),
        log=TotalsView.model_validate(report.totals),
        findings=tuple(FindingView.model_validate(finding) for finding in report.findings),
    )


async def _drawn_level(desk: Desk, tenant: str, session: str) -> None:
    """Give the read models some time to reach the end of the session, if it can be read."""
    with suppress(Corrupt, Refused):
        last = (await desk.sessions.last(tenant, session)).sequence
        await reached(desk.store, desk.bell, tenant, session, last, within=PATIENCE)


@router.get(WHOLE, response_class=StreamingResponse, responses=_LINES, summary="Check the log")
async def verify_log(tenant: Tenant, desk: AtDesk) -> StreamingResponse:
    """Verify all sessions and the segment library; stream progress and findings, then a summary."""
    return _verified(desk, tenant, None)


@router.post(
    WHOLE,
    response_class=StreamingResponse,
    responses=_LINES,
    summary="Check the log against a checkpoint",
)
async def verify_against(tenant: Tenant, desk: AtDesk, checkpoint: Checkpoint) -> StreamingResponse:
    """Verify the log, and that it still contains every head of a checkpoint.

    The client checks the signature of the checkpoint itself.
    """
    if checkpoint.tenant != tenant:
        detail = f"it is a checkpoint of tenant {checkpoint.tenant[:80]!r}"
        raise Refused("invalid", detail, field="tenant", fix="ask the service of that tenant")
    return _verified(desk, tenant, checkpoint)


def _verified(desk: Desk, tenant: str, witness: Checkpoint | None) -> StreamingResponse:
    refuse_more(desk)
    lines = _lines(_auditing(desk, tenant), witness)
    return StreamingResponse(one_of_few(desk, lines), media_type=NDJSON)


@router.get("/v1/checkpoint", summary="Where every session ends")
async def show_checkpoint(tenant: Tenant, desk: AtDesk) -> Checkpoint:
    """Return a checkpoint of all sessions' heads, to be signed and stored.

    It is refused when a hash chain is broken.
    """
    refuse_more(desk)
    async with desk.few:
        return await _auditing(desk, tenant).checkpoint()


async def _lines(auditing: Auditing, witness: Checkpoint | None) -> AsyncGenerator[bytes]:
    told = _Told(time.monotonic())
    async with aclosing(auditing.whole(witness)) as steps:
        async for step in steps:
            if line := told.line(step, time.monotonic()):
                yield line.model_dump_json().encode() + b"\n"


class _Told:
    """Builds response lines from the steps of a verification.

    It remembers the time of the last progress line and the first finding.
    """

    def __init__(self, began: float) -> None:
        self.began = self.stage_began = self.said = began
        self.stage = ""
        self.first: FindingLine | None = None

    def line(self, step: Step, now: float) -> Line | None:
        """Return the line for a step; None for progress that follows too soon."""
        match step:
            case Progress():
                return self._progress(step, now)
            case Wrong(log=log, key=(_, session), finding=finding):
                line = FindingLine(
                    log=log, session=session, finding=FindingView.model_validate(finding)
                )
                self.first = self.first or line
                return line
            case Over():
                return self._summary(step, now)
            case _ as never:
                assert_never(never)

    def _progress(self, step: Progress, now: float) -> ProgressLine | None:
        if step.stage != self.stage:
            self.stage, self.stage_began = step.stage, self.said
        if now - self.said < EVERY:
            return None
        self.said = now
        rate = step.done / max(now - self.stage_began, EVERY)
        return ProgressLine(stage=step.stage, done=step.done, goal=step.goal, rate=rate)

    def _summary(self, over: Over, now: float) -> SummaryLine:
        tally = over.tally
        return SummaryLine(
            verified=not tally.findings,
            **asdict(tally.verdicts),
            sessions=tally.sessions,
            unsound=len(tally.unsound),
            events=over.events,
            seconds=now - self.began,
            prompts=PromptsView.model_validate(tally.prompts),
            log=TotalsView.model_validate(tally.totals),
            findings=tally.findings,
            first=self.first,
        )
