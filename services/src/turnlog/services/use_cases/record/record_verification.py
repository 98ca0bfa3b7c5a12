"""Verification of a session or of the whole log, and checkpoints of all sessions' heads.

Answers are claims of this service; who does not trust it exports the log and verifies the export.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass
from typing import Final, assert_never

from turnlog.events.errors import Corrupt, Refused, StreamHole, Unavailable
from turnlog.events.store.ports import EventLog
from turnlog.projections.audit.verify.checkpoint_consistency import ContinuedCheckpoint
from turnlog.projections.audit.verify.hash_chain import WitnessedHead
from turnlog.projections.audit.verify.signed_checkpoints import ROOTED_FORMAT, AuditCheckpoint
from turnlog.projections.audit.verify.verification_report import VerificationReport
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.read_your_writes import ProjectionSignal, wait_until_folded
from turnlog.services.api.verify_payloads import (
    ChildVerificationView,
    TotalsView,
    VerificationView,
    VerifyFindingLine,
    VerifyProgressLine,
    VerifySummaryLine,
)
from turnlog.services.audit.chain_scan import LocatedFinding, VerifyProgress
from turnlog.services.audit.verify_pool import OpenVerifier, open_best_verifier
from turnlog.services.audit.verify_service import VerifyOutcome, VerifyService, VerifyStep
from turnlog.services.integrity.record_watch import RecordWatch
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.use_cases.record.log_scan_slots import LogScanSlots

CATCH_UP_SECONDS: Final = 0.5
"""Seconds that the read models get to catch up; the log is verified anyway."""

PROGRESS_INTERVAL_SECONDS: Final = 0.25
"""Seconds between two progress lines."""

VerifyLine = VerifyProgressLine | VerifyFindingLine | VerifySummaryLine


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordVerification:
    """Verifies the record of a tenant."""

    command_handler: CommandHandler
    library: EventLog
    """The log of the library."""
    alerts: EventLog
    """The log of alerts."""
    reads: EventLog
    """The log of reads."""
    store: ReadModelStore
    projection_signal: ProjectionSignal
    log_scan_slots: LogScanSlots
    record_watch: RecordWatch | None = None
    """Knows whether a message of the record is lost; it is told of holes that a reader met."""
    open_verifier: OpenVerifier = open_best_verifier
    """Creates the pool of processes that verify a log."""

    def _create_service(self, tenant: str, *, with_installation: bool = False) -> VerifyService:
        return VerifyService(
            tenant=tenant,
            command_handler=self.command_handler,
            library_log=self.library,
            alerts_log=self.alerts,
            reads_log=self.reads,
            store=self.store,
            with_installation=with_installation,
            open_verifier=self.open_verifier,
        )

    async def verify_session(
        self, tenant: str, session: str, witness: WitnessedHead | None = None
    ) -> VerificationView:
        """Verify the hash chain, sequences, answers, blobs and totals of a session.

        Every prompt is also reproduced in two ways, and so are those of its child sessions. With a
        witnessed head, it is also verified that no event was removed or rewritten.
        """
        await self._wait_for_projection(tenant, session)
        verifying = self._create_service(tenant)
        report = await verifying.verify_session(session, witness)
        children = await verifying.verify_children(report)
        return _create_verification_view(session, report, children)

    async def _wait_for_projection(self, tenant: str, session: str) -> None:
        """Give the read models some time to reach the end of the session, if it can be read."""
        with suppress(Corrupt, Refused, Unavailable):
            last = (await self.command_handler.load_last_event(tenant, session)).sequence
            await wait_until_folded(
                store=self.store,
                signal=self.projection_signal,
                tenant=tenant,
                session=session,
                sequence=last,
                within=CATCH_UP_SECONDS,
            )

    def verify_log(
        self,
        tenant: str,
        witness: AuditCheckpoint | None = None,
        *,
        with_installation: bool = False,
    ) -> AsyncGenerator[VerifyLine]:
        """Verify sessions, library, alerts and reads; yield progress and findings, then a summary.

        The keys of the installation are no tenant's, so who asks must be the installation's.

        With a checkpoint, it is also verified that the log still contains every head of it; its
        signature is for the caller to check.
        """
        if witness is not None:
            _check_owner(witness, tenant, with_installation=with_installation)
        self.log_scan_slots.check_free()
        service = self._create_service(tenant, with_installation=with_installation)
        return self.log_scan_slots.stream_in_slot(self._iterate_lines(service, witness))

    async def create_checkpoint(
        self, tenant: str, *, with_installation: bool = False
    ) -> AuditCheckpoint:
        """Return a checkpoint of all sessions' heads, to be signed and stored.

        It is refused when a hash chain is broken.
        """
        self.log_scan_slots.check_free()
        async with self.log_scan_slots.semaphore:
            service = self._create_service(tenant, with_installation=with_installation)
            return await service.create_checkpoint()

    async def continue_checkpoint(
        self, tenant: str, older: AuditCheckpoint, *, with_installation: bool = False
    ) -> ContinuedCheckpoint:
        """Return a checkpoint as `create_checkpoint` does, with its consistency to an older one.

        It is refused when the log does not continue the older one, whose signature is for the
        caller to check.
        """
        _check_owner(older, tenant, with_installation=with_installation)
        if older.format != ROOTED_FORMAT:
            detail = "the older checkpoint has no roots of trees, for an earlier release made it"
            fix = "compare it with `POST /v1/verify`, and go on from a new one"
            raise Refused("not-covered", detail, field="format", fix=fix)
        self.log_scan_slots.check_free()
        async with self.log_scan_slots.semaphore:
            service = self._create_service(tenant, with_installation=with_installation)
            return await service.continue_checkpoint(older)

    async def _iterate_lines(
        self, service: VerifyService, witness: AuditCheckpoint | None
    ) -> AsyncGenerator[VerifyLine]:
        builder = _VerifyLineBuilder(time.monotonic())
        async with aclosing(service.verify_log(witness)) as steps:
            async for step in steps:
                match step:
                    case LocatedFinding(hole=StreamHole() as hole) if self.record_watch is not None:
                        await self.record_watch.report_hole(hole)
                    case _:
                        pass
                if line := builder.build_line(step, time.monotonic()):
                    yield line


def _check_owner(checkpoint: AuditCheckpoint, tenant: str, *, with_installation: bool) -> None:
    """Refuse a checkpoint of another tenant, and one of the installation to who may not read it."""
    if checkpoint.tenant != tenant:
        detail = f"the checkpoint is of tenant {checkpoint.tenant[:80]!r}"
        fix = "ask the service of that tenant"
        raise Refused("invalid", detail, field="tenant", fix=fix)
    if checkpoint.installation and not with_installation:
        detail = "the checkpoint has the heads of the installation"
        fix = "verify against it with the root key"
        raise Refused("not-permitted", detail, field="installation", fix=fix)


def _create_verification_view(
    session: str, report: VerificationReport, children: Mapping[str, VerificationReport]
) -> VerificationView:
    return VerificationView(
        session=session,
        sequence=report.head.sequence if report.head else 0,
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
            installation_events=over.installation_events,
            seconds=now - self.started_at,
            prompts=tally.prompts,
            log=TotalsView.model_validate(tally.totals),
            findings=tally.findings,
            first=self.first_finding,
        )
