"""Evaluations with a clock of the test's own: one process, several, and one after another."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.projections.store.row_fold import fold_log
from tests.projections.store.session_histories import (
    StoredSession,
    build_opened,
    build_submitted,
)
from tests.support.sessions.prepared_database import open_prepared_store
from turnlog.events.codec import EventBatch
from turnlog.events.model.alert_events import (
    AlertCleared,
    AlertRule,
    KnownAlertEvent,
)
from turnlog.events.model.turn_events import TurnFailed
from turnlog.events.registry import format_event_name
from turnlog.events.store.memory_log import MemoryBlobStore, MemoryLog
from turnlog.events.store.ports import AppendOutcome, RawEvent
from turnlog.events.subjects import ALERT_HISTORY, LIBRARY_HISTORY
from turnlog.projections.store.engine import ReadModelStore
from turnlog.services.alerts.alert_evaluator import MAX_LAG, AlertEvaluator
from turnlog.services.alerts.alert_service import AlertService
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.command_handling.tenant_histories import LibraryParts
from turnlog.services.platform.clock import create_id

BEGIN = datetime(2026, 3, 1, 22, tzinfo=UTC)

CALLER = Caller(tenant="t", metadata=CommandMetadata("operator"))

FAILED = AlertRule(measure="failed_turns", window_seconds=3_600, above=0)


@dataclass
class MeetingLog(MemoryLog):
    """A log of alerts whose appends wait until so many of them are to be carried out."""

    meeting: asyncio.Barrier | None = None

    async def append_batch(self, batch: EventBatch) -> AppendOutcome:
        if self.meeting is not None:
            await self.meeting.wait()
            self.meeting = None
        return await super().append_batch(batch)


@dataclass(repr=False, kw_only=True)
class AlertStand:
    """A log, its read models, and evaluators with one clock."""

    store: ReadModelStore
    log: MemoryLog = field(default_factory=MemoryLog)
    library: MemoryLog = field(default_factory=lambda: MemoryLog(kind=LIBRARY_HISTORY))
    alerts: MeetingLog = field(default_factory=lambda: MeetingLog(kind=ALERT_HISTORY))
    at: datetime = BEGIN
    sessions: int = 0

    def create_service(self) -> AlertService:
        parts = LibraryParts(
            log=self.library,
            blobs=MemoryBlobStore(),
            clock=lambda: self.at,
            create_id=create_id,
            source="/test",
        )
        return AlertService(parts, self.alerts)

    def create_evaluator(self) -> AlertEvaluator:
        """Return an evaluator that knows nothing, as that of a process that was started."""
        return AlertEvaluator(
            log=self.log,
            store=self.store,
            service=self.create_service(),
            clock=lambda: self.at,
        )

    async def set_rules(self, rules: Mapping[str, AlertRule]) -> None:
        await self.create_service().set_rules(CALLER, rules, removes_others=True)

    async def fail_turn(self) -> str:
        """Have a turn fail, of a session of its own."""
        self.sessions += 1
        name = f"s-{self.sessions}"
        story = StoredSession(log=self.log, session=name, at=self.at - timedelta(seconds=10))
        failed = TurnFailed(turn=1, code="model_error", detail="", retryable=True)
        await story.append_events(build_opened(), build_submitted(1, "secret words"), failed)
        await fold_log(self.store, self.log)
        return name

    async def evaluate(self, *evaluators: AlertEvaluator, minutes: int = 1) -> None:
        """Let every evaluator look once a minute."""
        for _ in range(minutes):
            for each in evaluators:
                await each.evaluate_alerts()
            self.at += timedelta(minutes=1)

    async def list_events(self, name: str = "fail") -> Sequence[KnownAlertEvent]:
        """Return what was recorded about an alert, in order."""
        found = await self.create_service().list_latest("t", name, 1_000)
        return [each.event for each in reversed(found)]

    async def list_names(self, name: str = "fail") -> list[str]:
        events = await self.list_events(name)
        return [format_event_name(each.type).removeprefix("alert-") for each in events]


@pytest.fixture
async def stand(tmp_path: Path) -> AsyncIterator[AlertStand]:
    store = await open_prepared_store(tmp_path / "rows.db")
    running = AlertStand(store=store)
    await fold_log(store, running.log)
    yield running
    await store.close()


async def test_alert_is_raised_with_its_sessions_and_cleared_when_its_window_is_quiet(
    stand: AlertStand,
) -> None:
    await stand.set_rules({"fail": FAILED})
    evaluator = stand.create_evaluator()
    await stand.evaluate(evaluator, minutes=3)
    assert await stand.list_names() == []
    sessions = {await stand.fail_turn(), await stand.fail_turn()}
    await stand.evaluate(evaluator, minutes=59)
    (raised,) = await stand.list_events()
    assert (raised.value, {*raised.sessions}) == (2, sessions)
    await stand.evaluate(evaluator, minutes=2)  # Nothing happens, and the clock goes on.
    assert await stand.list_names() == ["raised", "cleared"]
    assert all(b"secret" not in each.stored for each in stand.alerts.stored if each)


async def test_hundred_evaluators_after_another_raise_and_remind_as_one_would(
    stand: AlertStand,
) -> None:
    rule = FAILED.model_copy(update={"for_seconds": 300, "remind_seconds": 1_200})
    await stand.set_rules({"fail": rule})
    await stand.fail_turn()
    for _ in range(50):
        await stand.evaluate(stand.create_evaluator())
    assert await stand.list_names() == ["threshold-crossed", "raised", "reminded", "reminded"]
    raised = (await stand.list_events())[1]
    assert datetime.fromisoformat(raised.state.since) == BEGIN + timedelta(minutes=5)


async def test_two_evaluators_that_find_the_same_at_once_record_it_once(stand: AlertStand) -> None:
    await stand.set_rules({"fail": FAILED, "other": FAILED})
    await stand.fail_turn()
    evaluators = [stand.create_evaluator() for _ in range(2)]
    stand.alerts.meeting = asyncio.Barrier(2)
    await asyncio.gather(*(each.evaluate_alerts() for each in evaluators))
    assert stand.alerts.meeting is None
    assert await stand.list_names() == ["raised"]
    assert await stand.list_names("other") == ["raised"]


async def test_changed_and_removed_rules_clear_their_alerts_with_the_reason(
    stand: AlertStand,
) -> None:
    await stand.set_rules({"fail": FAILED, "gone": FAILED})
    await stand.fail_turn()
    evaluator = stand.create_evaluator()
    await stand.evaluate(evaluator)
    await stand.set_rules({"fail": FAILED.model_copy(update={"above": 0.5})})
    await stand.evaluate(evaluator, minutes=3)
    assert await stand.list_names() == ["raised", "cleared", "raised"]
    assert await stand.list_names("gone") == ["raised", "cleared"]
    reasons = []
    for name in ("fail", "gone"):
        cleared = (await stand.list_events(name))[1]
        assert isinstance(cleared, AlertCleared)
        reasons.append(cleared.reason)
    assert reasons == ["rule-changed", "rule-removed"]
    # Who is started later finds that it is cleared already, and a new rule of the name begins anew.
    await stand.evaluate(stand.create_evaluator())
    await stand.set_rules({"gone": FAILED})
    await stand.evaluate(evaluator)
    assert await stand.list_names("gone") == ["raised", "cleared", "raised"]


async def test_rule_that_was_set_again_as_it_is_stays_raised(stand: AlertStand) -> None:
    await stand.set_rules({"fail": FAILED})
    await stand.fail_turn()
    evaluator = stand.create_evaluator()
    await stand.evaluate(evaluator)
    await stand.set_rules({"fail": FAILED})
    await stand.evaluate(evaluator, minutes=5)
    assert await stand.list_names() == ["raised"]


async def test_read_models_that_are_behind_are_judged_by_their_lag_alone(
    stand: AlertStand,
) -> None:
    lag = AlertRule(measure="projector_lag", above=MAX_LAG)
    await stand.set_rules({"fail": FAILED, "lag": lag})
    story = StoredSession(log=stand.log, session="busy", at=BEGIN)
    failed = TurnFailed(turn=1, code="model_error", detail="", retryable=True)
    await story.append_events(build_opened(), build_submitted(1, "one"), failed)
    await fold_log(stand.store, stand.log)
    for turn in range(2, 2 + MAX_LAG // 2):
        await story.append_events(
            build_submitted(turn, "more"), failed.model_copy(update={"turn": turn})
        )
    evaluator = stand.create_evaluator()
    await stand.evaluate(evaluator)
    assert (await stand.list_names(), await stand.list_names("lag")) == (["raised"], [])
    await story.append_events(build_submitted(2 + MAX_LAG // 2, "one more"))
    stand.at += timedelta(days=1)  # Nothing failed in the last hour, as far as the rows know.
    await stand.evaluate(evaluator)
    assert (await stand.list_names(), await stand.list_names("lag")) == (["raised"], ["raised"])
    await fold_log(stand.store, stand.log)
    await stand.evaluate(evaluator)
    assert await stand.list_names() == ["raised", "cleared"]
    assert await stand.list_names("lag") == ["raised", "cleared"]


async def test_alerts_of_every_tenant_are_evaluated_whatever_became_of_another(
    stand: AlertStand,
) -> None:
    lag = AlertRule(measure="projector_lag", above=-1)
    for tenant in ("broken", "other"):
        caller = Caller(tenant=tenant, metadata=CommandMetadata("operator"))
        await stand.create_service().set_rules(caller, {"lag": lag}, removes_others=False)
    stored = stand.library.stored[0]
    assert stored is not None
    no_measure = stored.stored.replace(b'"measure":"projector_lag"', b'"measure":17')
    stand.library.stored[0] = RawEvent(stored.subject, stored.stream_sequence, no_measure)
    await stand.evaluate(stand.create_evaluator())
    found = {
        tenant: len(await stand.create_service().list_latest(tenant, "lag", 9))
        for tenant in ("broken", "other")
    }
    assert found == {"broken": 0, "other": 1}


async def test_rule_of_a_later_release_is_passed_over(stand: AlertStand) -> None:
    await stand.set_rules({"new": AlertRule(measure="moon_phase", above=0), "fail": FAILED})
    await stand.fail_turn()
    await stand.evaluate(stand.create_evaluator())
    assert (await stand.list_names("new"), await stand.list_names()) == ([], ["raised"])


async def test_history_is_read_from_its_end_as_far_as_is_asked_for(stand: AlertStand) -> None:
    rule = FAILED.model_copy(update={"remind_seconds": 60})
    await stand.set_rules({"fail": rule})
    await stand.fail_turn()
    await stand.evaluate(stand.create_evaluator(), minutes=20)
    latest = deque(await stand.create_service().list_latest("t", "fail", 3))
    assert [each.head.sequence for each in latest] == [20, 19, 18]
