"""Quotas of turns: reserved before a turn runs, settled when it is over, whoever died meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from tests.support.sessions.session_harness import TENANT, TESTER, SessionHarness
from tests.support.sessions.unreachable_log import UnreachableLog
from turnlog.events.codec import CommandRef
from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused, Unavailable
from turnlog.events.model.quota_events import QuotaBalance, QuotaEdited, QuotaLimits
from turnlog.events.model.turn_events import TurnQueued, TurnSubmitted
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.quotas.quota_decisions import QuotaExceeded
from turnlog.projections.quotas.turn_bound import TurnBound
from turnlog.projections.session.commands import CancelTurn, SubmitTurn
from turnlog.services.command_handling.tenant_histories import RECENT_AGE
from turnlog.services.quotas.quota_reservations import REPORT_GRACE, SUBMIT_GRACE, TurnQuotas
from turnlog.services.quotas.quota_service import QuotaService
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.worker.attempts.attempt_heartbeats import AttemptHeartbeat
from turnlog.services.worker.model.model_types import ModelFailure

BOUND = TurnBound(1_000, 200)

PERIOD = "2026-01"

ANSWER_USAGE = (10, 5)
"""What an answer of the puppet model takes."""


@dataclass(repr=False, kw_only=True)
class QuotaHarness(SessionHarness):
    """Sessions whose turns are Ann's; the time since limits were read stands still."""

    session_log: UnreachableLog = field(default_factory=UnreachableLog)
    library_log: UnreachableLog = field(
        default_factory=lambda: UnreachableLog(kind=LIBRARY_HISTORY)
    )
    seconds: float = 100.0

    def __post_init__(self) -> None:
        self.log, self.segments = self.session_log, self.library_log
        super().__post_init__()

    def build_quotas(self, source: str) -> TurnQuotas:
        parts = self.build_library_parts(source)
        return TurnQuotas(QuotaService(parts, lambda: self.seconds), self.log)

    async def set_limits(self, user: str = "ann", **limits: int) -> None:
        """Set the limits of a user, as another process does."""
        edited = QuotaEdited(user=user, limits=QuotaLimits(**limits))
        service = self.build_quotas("/test/admin").service
        await service.edit_limits(TENANT, edited, TESTER)

    async def submit_for(
        self,
        user: str | None = "ann",
        *,
        gateway: CommandHandler | None = None,
        key: str | None = None,
        **policies: object,
    ) -> RecordedEvent:
        """Submit a turn for a user; gives the session's last event."""
        command = SubmitTurn(
            text="Hi", policies=Policies.model_validate(policies), user=user, bound=BOUND
        )
        ref = CommandRef(key, compute_digest("the body")) if key else None
        await (gateway or self.sessions).handle(TENANT, "s", command, TESTER, ref)
        return self.list_events()[-1]

    async def load_balance(self) -> QuotaBalance:
        """Give Ann's balance as it is stored."""
        service = self.build_quotas("/test/reader").service
        return (await service.load_balance(TENANT, "ann", PERIOD)).balance

    async def reconcile(self) -> QuotaBalance:
        """Settle what is over and give Ann's balance."""
        quotas = self.build_quotas("/test/reader")
        return (await quotas.reconcile_balance(TENANT, "ann", PERIOD)).balance


@pytest.fixture
async def harness() -> QuotaHarness:
    fresh = QuotaHarness()
    await fresh.set_limits(input_tokens=1_500, output_tokens=10_000)
    await fresh.open_session()
    return fresh


def get_used(balance: QuotaBalance) -> tuple[int, int]:
    return balance.input_tokens, balance.output_tokens


async def test_turn_reserves_its_bound_and_is_settled_with_its_usage(
    harness: QuotaHarness,
) -> None:
    submitted = await harness.submit_for()
    event = submitted.event
    assert isinstance(event, TurnSubmitted)
    assert event.reservation is not None
    (reserved,) = (await harness.load_balance()).reservations
    assert (event.user, reserved.id) == ("ann", event.reservation.id)
    assert (reserved.session, reserved.turn) == ("s", 1)
    assert (reserved.input_tokens, reserved.output_tokens) == (1_000, 200)
    await harness.run_turn(submitted)
    settled = await harness.load_balance()
    assert settled.reservations == ()
    assert get_used(settled) == ANSWER_USAGE
    assert settled.hour_requests == 1


async def test_turn_over_quota_is_refused_before_any_event_is_recorded(
    harness: QuotaHarness,
) -> None:
    await harness.submit_for()
    await harness.submit_for()
    names = harness.list_event_names()
    with pytest.raises(QuotaExceeded) as refused:
        await harness.submit_for()
    use = refused.value.use
    assert (use.name, use.reserved, use.left) == ("input_tokens", 2_000, 0)
    assert (
        harness.list_event_names() == names == ["session-opened", "turn-submitted", "turn-queued"]
    )
    assert len((await harness.load_balance()).reservations) == 2


async def test_queued_turn_keeps_its_reservation_until_it_completes_or_is_cancelled(
    harness: QuotaHarness,
) -> None:
    first = await harness.submit_for()
    queued = await harness.submit_for()
    assert isinstance(queued.event, TurnQueued)
    await harness.sessions.handle(TENANT, "s", CancelTurn(2), TESTER)
    (left,) = (await harness.load_balance()).reservations
    assert left.turn == 1
    third = await harness.submit_for()
    assert isinstance(third.event, TurnQueued)
    await harness.run_turn(first)
    released = harness.list_events()[-1]
    await harness.run_turn(released)
    balance = await harness.load_balance()
    assert balance.reservations == ()
    assert get_used(balance) == tuple(2 * each for each in ANSWER_USAGE)


async def test_failed_turn_releases_its_reservation(harness: QuotaHarness) -> None:
    submitted = await harness.submit_for()
    harness.model.scripts.append([ModelFailure("bad_request")])
    await harness.run_turn(submitted)
    assert harness.list_event_names()[-1] == "turn-failed"
    balance = await harness.load_balance()
    assert balance.reservations == ()
    assert get_used(balance) == (0, 0)


async def test_cancelled_turn_keeps_its_reservation_until_its_usage_is_reported(
    harness: QuotaHarness,
) -> None:
    submitted = await harness.submit_for()
    speaks, cancelled = asyncio.Event(), asyncio.Event()
    harness.model.scripts.append(["Half an ", speaks.set, cancelled, "answer."])
    worker = harness.build_worker()
    # Its heartbeat would tell the worker of the cancel, sooner or later.
    worker.heartbeat = AttemptHeartbeat(worker.sessions, harness.tokens, 60.0)
    running = asyncio.create_task(harness.run_turn(submitted, worker))
    await speaks.wait()
    await harness.sessions.handle(TENANT, "s", CancelTurn(), TESTER)
    assert len((await harness.load_balance()).reservations) == 1
    cancelled.set()
    await running
    balance = await harness.reconcile()
    assert balance.reservations == ()
    assert get_used(balance) == ANSWER_USAGE


async def test_cancelled_turn_of_a_dead_worker_is_charged_for_its_prompt(
    harness: QuotaHarness,
) -> None:
    submitted = await harness.submit_for()
    speaks = asyncio.Event()
    harness.model.scripts.append(["Half an ", speaks.set, asyncio.Event()])
    running = asyncio.create_task(harness.run_turn(submitted))
    await speaks.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await harness.sessions.handle(TENANT, "s", CancelTurn(), TESTER)
    assert len((await harness.reconcile()).reservations) == 1
    harness.clock.advance_time(REPORT_GRACE.total_seconds())
    balance = await harness.reconcile()
    assert balance.reservations == ()
    assert 0 < balance.input_tokens < BOUND.input_tokens


async def test_reservation_of_a_dead_gateway_is_released_after_the_grace_period(
    harness: QuotaHarness,
) -> None:
    harness.session_log.is_cut_off = True
    with pytest.raises(Unavailable):
        await harness.submit_for()
    harness.session_log.is_cut_off = False
    assert len((await harness.reconcile()).reservations) == 1, "it may be about to submit"
    harness.clock.advance_time(SUBMIT_GRACE.total_seconds())
    balance = await harness.reconcile()
    assert balance.reservations == ()
    assert (get_used(balance), balance.hour_requests) == ((0, 0), 0)


async def test_turn_of_a_dead_worker_is_settled_from_the_log(
    harness: QuotaHarness,
) -> None:
    for _ in range(2):
        submitted = await harness.submit_for()
        harness.library_log.is_cut_off = True
        await harness.run_turn(submitted)
        harness.library_log.is_cut_off = False
    assert len((await harness.load_balance()).reservations) == 2
    await harness.submit_for()
    balance = await harness.load_balance()
    (left,) = balance.reservations
    assert left.turn == 3
    assert get_used(balance) == tuple(2 * each for each in ANSWER_USAGE)


async def test_repeated_request_with_one_key_reserves_once(harness: QuotaHarness) -> None:
    first = await harness.submit_for(key="k-1")
    again = await harness.submit_for(key="k-1", gateway=harness.build_command_handler("/test/g2"))
    assert again == first
    assert len((await harness.load_balance()).reservations) == 1


async def test_second_gateway_moves_its_reservation_to_the_next_turn_number(
    harness: QuotaHarness,
) -> None:
    second = harness.build_command_handler("/test/g2")
    await second.load_state(TENANT, "s")
    await harness.submit_for()
    queued = await harness.submit_for(gateway=second)
    assert isinstance(queued.event, TurnQueued)
    reservations = (await harness.load_balance()).reservations
    assert [each.turn for each in reservations] == [1, 2]
    assert queued.event.reservation is not None
    assert queued.event.reservation.id == reservations[1].id


async def test_turn_rejected_for_another_open_turn_releases_its_reservation(
    harness: QuotaHarness,
) -> None:
    second = harness.build_command_handler("/test/g2")
    await second.load_state(TENANT, "s")
    await harness.submit_for()
    with pytest.raises(Refused, match="turn-open"):
        await harness.submit_for(gateway=second, second_submit="reject")
    (left,) = (await harness.load_balance()).reservations
    assert left.turn == 1


async def test_users_without_a_quota_cause_few_reads_and_no_events(
    harness: QuotaHarness,
) -> None:
    stored = len(harness.library_log.stored)
    await harness.submit_for("ben")
    reads = harness.library_log.reads
    await harness.submit_for("cleo")
    await harness.submit_for(None)
    assert harness.library_log.reads == reads
    assert len(harness.library_log.stored) == stored
    event = harness.list_events()[-2].event
    assert isinstance(event, TurnQueued)
    assert (event.user, event.reservation) == ("cleo", None)


async def test_limit_set_by_another_process_applies_within_a_second(
    harness: QuotaHarness,
) -> None:
    await harness.submit_for("ben")
    await harness.set_limits("ben", requests_per_day=0)
    harness.seconds += RECENT_AGE
    with pytest.raises(QuotaExceeded):
        await harness.submit_for("ben")
