"""Erases sessions that are due by a policy: on a schedule in every gateway, or when asked to.

Read models say which sessions may be due, and the log decides. Each is erased by the same use of
service as a request is, so that of several gateways one begins it. A session that cannot be erased
costs no read of the log, and none is left out: a round goes on where the last one stopped.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

import structlog

from turnlog.contract.installation.retention_payloads import (
    DueSessions,
    DueSessionView,
    RetentionOutcome,
)
from turnlog.events.codec import format_rfc3339
from turnlog.events.errors import Corrupt, Refused, TurnlogError
from turnlog.projections.retention.retention_rules import (
    DueErasure,
    find_due_erasure,
    require_erasable_now,
)
from turnlog.projections.retention.retention_state import TenantRetention
from turnlog.projections.retention.session_facts import SessionFacts
from turnlog.projections.store.read.erasure_queries import (
    RetainedRow,
    list_retained_rows,
    list_sessions_of_user,
)
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.erasures.erasure_rounds import repeat_rounds
from turnlog.services.erasures.erasure_service import ErasureService
from turnlog.services.erasures.erasure_tracing import ErasureTarget
from turnlog.services.retention.retention_forms import format_age
from turnlog.services.retention.retention_guard import RetentionGuard

ROUND_ROWS: Final = 1_000
"""Sessions of a tenant that a round looks at."""

ROUND_ERASURES: Final = 50
"""Erasures of a tenant that a round tries."""

MOST_ROWS: Final = 20_000
"""Sessions that are looked at for an answer."""

MOST_LISTED: Final = 100
"""Sessions that an answer names."""

SCHEDULE: Final = CommandMetadata("retention")
"""The actor of what the schedule erases."""

_WAITS: Final[Mapping[str, RetentionOutcome]] = {"held": "held", "retained": "retained"}

_log = structlog.get_logger("turnlog.retention")


@dataclass(frozen=True, slots=True)
class _DueSession:
    """A session that is due as far as its row says."""

    facts: SessionFacts
    due: DueErasure
    outcome: RetentionOutcome
    detail: str | None = None

    def build_view(self) -> DueSessionView:
        return DueSessionView(
            session=self.facts.session,
            policy=self.due.policy.name,
            due=format_rfc3339(self.due.at),
            outcome=self.outcome,
            detail=self.detail,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _DuePage:
    """Sessions that were looked at, and those of them that are due."""

    found: Sequence[_DueSession]
    examined: int
    end: int
    """The place of the last one; 0 if they were the last ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueErasures:
    """Finds what is due, and erases it."""

    erasures: ErasureService
    guard: RetentionGuard
    _places: dict[str, int] = field(default_factory=dict[str, int])
    """Where the next round of a tenant begins: only saves looking at the same sessions again."""

    @asynccontextmanager
    async def run_rounds(self) -> AsyncGenerator[None]:
        """Erase what is due, of all tenants, while the body runs."""
        async with repeat_rounds(self._run_scheduled_rounds):
            yield

    async def _run_scheduled_rounds(self) -> None:
        try:
            for tenant in await self.guard.service.list_tenants():
                await self._run_scheduled_round(tenant)
        except TurnlogError as error:
            _log.warning("retention-waits", detail=str(error))

    async def _run_scheduled_round(self, tenant: str) -> None:
        try:
            await self.run_round(tenant, SCHEDULE)
        except TurnlogError as error:
            _log.warning("retention-waits", tenant=tenant, detail=str(error))

    async def list_due(self, tenant: str) -> DueSessions:
        """Return which sessions are due, and what keeps each of them from being erased."""
        retention = await self.guard.service.load_retention(tenant)
        at, found, examined, after = self._read_clock(), list[_DueSession](), 0, 0
        while examined < MOST_ROWS:
            page = await self._read_page(retention, at, after)
            found, examined, after = [*found, *page.found], examined + page.examined, page.end
            if not after:
                break
        return _build_answer(at, examined, found, is_complete=not after)

    async def run_round(self, tenant: str, metadata: CommandMetadata) -> DueSessions:
        """Erase sessions that are due, so many at a time, and say what became of each."""
        retention = await self.guard.service.load_retention(tenant)
        at, after = self._read_clock(), self._places.get(tenant, 0)
        if not any(each.erase_seconds for each in retention.policies.values()):
            return _build_answer(at, 0, (), is_complete=True)
        page = await self._read_page(retention, at, after)
        done, tried = list[_DueSession](), 0
        for each in page.found:
            if each.outcome == "due" and tried < ROUND_ERASURES:
                tried += 1
                done += await self._erase(tenant, each, at, metadata)
            else:
                done.append(each)
        if not any(each.outcome == "due" for each in done):
            self._places[tenant] = page.end
        return _build_answer(at, page.examined, done, is_complete=not after and not page.end)

    def _read_clock(self) -> datetime:
        return self.erasures.command_handler.clock()

    async def _read_page(self, retention: TenantRetention, at: datetime, after: int) -> _DuePage:
        """Look at so many sessions behind a place."""
        tenant = retention.tenant
        async with self.erasures.store.open_reader() as connection:
            rows = await list_retained_rows(connection, tenant, after, ROUND_ROWS)
            named = {each.where.user for each in retention.holds.values()} - {None}
            asked = {
                user: frozenset(await list_sessions_of_user(connection, tenant, (user,)))
                for user in named
                if user is not None
            }
        found = list[_DueSession]()
        for row in rows:
            if (each := _examine_row(retention, row, asked, at)) is not None:
                found.append(each)
                await asyncio.sleep(0)  # There may be a thousand holds to ask.
        return _DuePage(
            found=found,
            examined=len(rows),
            end=rows[-1].opened_position if len(rows) == ROUND_ROWS else 0,
        )

    async def _erase(
        self, tenant: str, each: _DueSession, at: datetime, metadata: CommandMetadata
    ) -> Sequence[_DueSession]:
        """Erase a session if the log says that it is due; return what became of it, if anything."""
        session = each.facts.session
        target = ErasureTarget(tenant=tenant, session=session)
        try:
            due = await self._find_due(target)
            if due is None or due.at > at:
                return (replace(each, outcome="waiting", detail=_explain_wait(due)),)
            caller = Caller(tenant=tenant, metadata=metadata)
            begun = await self.erasures.begin_erasure(caller, target, _format_reason(due))
        except Refused as refused:
            if refused.code == "already-erased":
                return ()  # Another process was faster.
            outcome = _WAITS.get(refused.code, "waiting")
            return (replace(each, outcome=outcome, detail=refused.detail),)
        except Corrupt as error:  # It keeps no other session waiting.
            _log.error("session-not-erased", tenant=tenant, session=session, detail=str(error))
            return (replace(each, outcome="waiting", detail=str(error)),)
        _log.info("session-due", tenant=tenant, session=session, policy=due.policy.name)
        try:
            await self.erasures.finish_erasure(tenant, session, begun)
        except TurnlogError as error:  # It goes on by itself.
            return (replace(each, due=due, outcome="begun", detail=str(error)),)
        return (replace(each, due=due, outcome="erased"),)

    async def _find_due(self, target: ErasureTarget) -> DueErasure | None:
        """Return when a session is to be erased, as the log says it now; None if never."""
        retention = await self.guard.service.load_retention(target.tenant, leader=True)
        reached = await self.erasures.list_reached(await self.erasures.tracer.trace(target))
        facts = [await self.guard.load_protected(target.tenant, each) for each in reached]
        # Children go with who asked them, whenever that was.
        members = [each[0] for each in facts if len(each) == 1]
        return find_due_erasure(retention, members[0], members[1:]) if members else None


def _explain_wait(due: DueErasure | None) -> str:
    if due is None:
        return "no policy says to erase it any more"
    return f"it was used since, or a fork of it: it is due at {format_rfc3339(due.at)}"


def _examine_row(
    retention: TenantRetention,
    row: RetainedRow,
    asked: Mapping[str, frozenset[str]],
    at: datetime,
) -> _DueSession | None:
    """Return a session if its row says that it is due; None if not."""
    users = {user for user, sessions in asked.items() if row.session in sessions}
    facts = SessionFacts(
        session=row.session,
        blueprint=row.blueprint,
        labels=frozenset(row.labels),
        users=frozenset(users | ({row.owner} if row.owner is not None else set())),
        used_at=datetime.fromisoformat(row.used_at),
    )
    due = None if row.is_child else find_due_erasure(retention, facts)
    if due is None or due.at > at:
        return None
    if not row.is_sealed:
        detail = "its words are in the log for good: it was opened where TURNLOG_SEALING was not on"
        return _DueSession(facts, due, "not-sealed", detail)
    try:
        require_erasable_now(retention, facts, at)
    except Refused as refused:
        return _DueSession(facts, due, _WAITS[refused.code], refused.detail)
    return _DueSession(facts, due, "due")


def _format_reason(due: DueErasure) -> str:
    policy = due.policy
    return f"retention policy {policy.name}: {format_age(policy.erase_seconds)} after its last turn"


def _build_answer(
    at: datetime, examined: int, found: Sequence[_DueSession], *, is_complete: bool
) -> DueSessions:
    counts = Counter(each.outcome for each in found)
    return DueSessions(
        at=format_rfc3339(at),
        examined=examined,
        complete=is_complete,
        erased=counts["erased"] + counts["begun"],
        due=counts["due"],
        waiting=counts["waiting"],
        held=counts["held"],
        retained=counts["retained"],
        not_sealed=counts["not-sealed"],
        sessions=tuple(each.build_view() for each in found[:MOST_LISTED]),
    )
