"""A turn from its delivery to its reply, over a log in memory and a scripted model."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.services.platform.test_span_metrics import MeasuredTracing
from tests.support.sessions.session_harness import (
    ACK_WAIT,
    TENANT,
    TESTER,
    SessionHarness,
    build_delivery,
)
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.attempt_figures import SafetyRating
from turnlog.events.model.attempt_figures import TokenUsage as RecordedUsage
from turnlog.events.model.call_events import (
    AttemptEnded,
    AttemptStarted,
    ContextAssembled,
    find_attempt_end,
)
from turnlog.events.model.turn_events import TurnCancelled, TurnCompleted, TurnFailed
from turnlog.events.tokens import (
    AttemptAlive,
    AttemptClosed,
    AttemptReset,
    Token,
    WorkerActivity,
)
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.session.commands import CancelTurn, ClaimTurn, ExcludeTurn
from turnlog.projections.session.open_turn import OpenTurn
from turnlog.services.model_facts.model_prices import ModelPrices, PriceTable
from turnlog.services.worker import turn_runner
from turnlog.services.worker.attempts.attempt_heartbeats import AttemptHeartbeat
from turnlog.services.worker.model.model_types import ModelFailure
from turnlog.services.worker.turn_delivery import (
    DeliveryDeferred,
    DeliverySettled,
    DeliverySuperseded,
    DeliveryVerdict,
)


def find_last_event(house: SessionHarness, kind: type) -> RecordedEvent:
    """Find the latest event of a kind."""
    return next(event for event in reversed(house.list_events()) if isinstance(event.event, kind))


def list_attempt_ends(house: SessionHarness) -> list[AttemptEnded]:
    """List how the attempts ended, in order."""
    return [end for each in house.list_events() if (end := find_attempt_end(each.event))]


async def test_turn_is_claimed_its_prompt_recorded_and_its_reply_recorded() -> None:
    house = SessionHarness()
    await house.open_session()
    house.model.scripts = [["Hel", "lo."]]
    assert await house.run_turn(await house.submit_turn("Hi")) == DeliverySettled()
    assert house.list_event_names() == [
        "session-opened",
        "turn-submitted",
        "attempt-started",
        "context-assembled",
        "turn-completed",
    ]
    reply = find_last_event(house, TurnCompleted).event
    assert isinstance(reply, TurnCompleted)
    assert reply.text == PlainText(text="Hello.")
    assert house.model.requests[0].messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    )


async def test_token_events_add_up_to_the_reply_and_have_offsets() -> None:
    house = SessionHarness()
    await house.open_session()
    house.model.scripts = [["Hel", "lo."]]
    await house.run_turn(await house.submit_turn("Hi"))
    events = [stamped.event for stamped in await house.tokens.read_token_events(TENANT, "s", 1)]
    tokens = [event for event in events if isinstance(event, Token)]
    assert [(token.offset, token.text) for token in tokens] == [(0, "Hel"), (3, "lo.")]
    closed = events[-1]
    assert isinstance(closed, AttemptClosed)
    assert closed.digest == compute_digest("Hello.")


async def test_a_settled_turn_is_not_answered_again() -> None:
    house = SessionHarness()
    await house.open_session()
    submitted = await house.submit_turn("Hi")
    await house.run_turn(submitted)
    before = house.list_event_names()
    assert (
        await house.build_worker("w2").run_turn(build_delivery(submitted, redelivered=True))
        == DeliverySettled()
    )
    assert house.list_event_names() == before
    assert len(house.model.requests) == 1


async def test_two_workers_with_the_same_turn_call_the_model_once() -> None:
    house = SessionHarness()
    await house.open_session()
    gate = asyncio.Event()
    house.model.scripts = [[gate, "once"], [gate, "twice"]]
    submitted = await house.submit_turn("Hi")
    first = asyncio.create_task(house.build_worker("w1").run_turn(build_delivery(submitted)))
    second = asyncio.create_task(house.build_worker("w2").run_turn(build_delivery(submitted)))
    done, _ = await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
    assert isinstance(done.pop().result(), DeliveryDeferred)
    gate.set()
    assert DeliverySettled() in await asyncio.gather(first, second)
    assert len(house.model.requests) == 1
    assert house.list_event_names().count("turn-completed") == 1


async def test_running_attempt_is_not_taken_over() -> None:
    house = SessionHarness()
    await house.open_session()
    gate = asyncio.Event()
    house.model.scripts = [["so ", gate, "far"]]
    submitted = await house.submit_turn("Hi")
    working = asyncio.create_task(house.build_worker("w1").run_turn(build_delivery(submitted)))
    await house.log.watch_session(TENANT, "s", 3).__anext__()
    verdict = await house.build_worker("w2").run_turn(build_delivery(submitted, redelivered=True))
    assert isinstance(verdict, DeliveryDeferred)
    gate.set()
    assert await working == DeliverySettled()


async def test_attempt_without_tokens_is_left_alone_until_its_message_came_a_third_time() -> None:
    house = SessionHarness()
    await house.open_session()
    submitted = await house.submit_turn("Hi")
    await house.sessions.handle(TENANT, "s", ClaimTurn(1, "slow", Policies()), TESTER)
    delivery, worker = build_delivery(submitted), house.build_worker("w2")
    worker.ack_wait = 30.0
    verdicts = [await worker.run_turn(replace(delivery, deliveries=count)) for count in (1, 2, 3)]
    assert verdicts == [DeliveryDeferred(30), DeliveryDeferred(20), DeliverySettled()]
    assert [end.outcome for end in list_attempt_ends(house)] == ["lost", "answered"]


async def test_worker_that_gets_a_turn_again_does_not_take_over_its_own_running_attempt() -> None:
    house = SessionHarness()
    await house.open_session()
    submitted = await house.submit_turn("Hi")
    gate = asyncio.Event()
    house.model.scripts = [[gate, "Hello."], ["Hello again."]]
    worker = house.build_worker("stopped for a while")
    worker.ack_wait = 30.0
    delivery = build_delivery(submitted)
    working = asyncio.create_task(worker.run_turn(replace(delivery, deliveries=2)))
    await house.wait_for_event(ContextAssembled)
    house.tokens.clear_all()
    # A third delivery shows that another worker was silent, but this one runs the attempt itself.
    assert await worker.run_turn(replace(delivery, deliveries=3)) == DeliveryDeferred(30)
    gate.set()
    assert await working == DeliverySettled()
    assert [end.outcome for end in list_attempt_ends(house)] == ["answered"]


async def test_turn_that_is_delivered_again_while_it_runs_is_measured_once() -> None:
    house, measured = SessionHarness(), MeasuredTracing()
    await house.open_session()
    submitted = await house.submit_turn("Hi")
    gate = asyncio.Event()
    house.model.scripts = [[gate, "Hello."]]
    worker = house.build_worker()

    async def deliver() -> DeliveryVerdict:
        with measured.tracing.start_turn_span("s", 1, None):
            return await house.run_turn(submitted, worker)

    working = asyncio.create_task(deliver())
    await house.wait_for_event(ContextAssembled)
    assert isinstance(await deliver(), DeliveryDeferred)
    gate.set()
    assert await working == await deliver() == DeliverySettled()
    ((_, point),) = measured.list_points("gen_ai.workflow.duration")
    assert point.count == 1


async def test_only_worker_takes_over_at_once_what_it_does_not_run_itself() -> None:
    house = SessionHarness()
    await house.open_session()
    submitted = await house.submit_turn("Hi")
    await house.sessions.handle(TENANT, "s", ClaimTurn(1, "killed", Policies()), TESTER)
    gate = asyncio.Event()
    house.model.scripts = [["so ", gate, "far"]]
    worker = house.build_worker("w2")
    worker.is_alone, worker.ack_wait = True, 30.0
    again = replace(build_delivery(submitted), deliveries=2)
    working = asyncio.create_task(worker.run_turn(again))
    await house.wait_for_event(ContextAssembled)
    assert isinstance(await worker.run_turn(again), DeliveryDeferred)
    gate.set()
    assert await working == DeliverySettled()
    assert len(house.model.requests) == 1


@pytest.mark.promise("P7")
async def test_turn_whose_handling_raises_is_failed_once_its_deadline_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = SessionHarness()
    await house.open_session()
    submitted = await house.submit_turn("Hi")
    worker = house.build_worker()

    # An error before the claim: no attempt ends, and nothing else looks at the deadline.
    def run_into_bug(opened: OpenTurn) -> None:
        raise ZeroDivisionError(opened.turn)

    monkeypatch.setattr(turn_runner, "find_situation", run_into_bug)
    with pytest.raises(ZeroDivisionError):
        await worker.run_turn(build_delivery(submitted))
    assert (await house.load_state()).open is not None
    house.clock.advance_time(Policies().deadline_seconds)
    with pytest.raises(ZeroDivisionError):
        await worker.run_turn(build_delivery(submitted, redelivered=True))
    failed = find_last_event(house, TurnFailed).event
    assert isinstance(failed, TurnFailed)
    assert failed.code == "bug"
    assert await worker.run_turn(build_delivery(submitted, redelivered=True)) == DeliverySettled()


async def test_silent_worker_is_replaced_and_its_cost_is_unknown() -> None:
    house = SessionHarness()
    await house.open_session()
    submitted = await house.submit_turn("Hi")
    await house.sessions.handle(TENANT, "s", ClaimTurn(1, "dead", Policies()), TESTER)
    await house.tokens.publish_token(
        TENANT, "s", 1, Token(call="1.1", attempt=1, offset=0, text="half an ans")
    )
    await asyncio.sleep(ACK_WAIT)
    assert await house.run_redelivered_turn(submitted) == DeliverySettled()
    ended = list_attempt_ends(house)
    assert [end.outcome for end in ended] == ["lost", "answered"]
    assert ended[0].usage.known == "unknown"
    assert ended[0].cost.micro_dollars is None
    assert ended[0].partial == PlainText(text="half an ans")
    events = [stamped.event for stamped in await house.tokens.read_token_events(TENANT, "s", 1)]
    assert AttemptReset(call="1.1", attempt=2) in events


async def test_complete_answer_of_a_dead_worker_completes_the_turn_without_a_call() -> None:
    house = SessionHarness()
    await house.open_session()
    submitted = await house.submit_turn("Hi")
    stuck = asyncio.Event()
    house.model.scripts = [["All of it.", stuck]]
    working = asyncio.create_task(house.build_worker("dead").run_turn(build_delivery(submitted)))
    await house.wait_for_event(ContextAssembled)
    await house.wait_for_tokens(2, turn=1)
    closed = AttemptClosed(
        call="1.1",
        attempt=1,
        length=len("All of it."),
        digest=compute_digest("All of it."),
        finish="stop",
        usage=RecordedUsage(known="reported", input_tokens=9, output_tokens=4),
        total=10,
        response_id="chatcmpl-1",
        ratings=(SafetyRating(category="HARM_CATEGORY_HARASSMENT", probability="LOW"),),
    )
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    await house.tokens.publish_and_confirm(TENANT, "s", 1, closed)
    await asyncio.sleep(ACK_WAIT)
    assert await house.run_redelivered_turn(submitted) == DeliverySettled()
    assert len(house.model.requests) == 1
    reply = find_last_event(house, TurnCompleted).event
    assert isinstance(reply, TurnCompleted)
    assert reply.text == PlainText(text="All of it.")
    ended = list_attempt_ends(house)[-1]
    assert (ended.outcome, ended.response_id) == ("answered", "chatcmpl-1")
    assert ended.ratings == closed.ratings


async def test_answer_of_an_attempt_that_was_taken_over_meanwhile_settles_nothing() -> None:
    house = SessionHarness()
    await house.open_session()
    stuck = asyncio.Event()
    house.model.scripts = [["All of it.", stuck]]
    submitted = await house.submit_turn("Hi")
    dead, late = house.build_worker("dead"), house.build_worker("late")
    working = asyncio.create_task(dead.run_turn(build_delivery(submitted)))
    await house.wait_for_event(ContextAssembled)
    await house.wait_for_tokens(2, turn=1)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    closed = AttemptClosed(
        call="1.1",
        attempt=1,
        length=len("All of it."),
        digest=compute_digest("All of it."),
        finish="stop",
        usage=RecordedUsage(known="reported", input_tokens=9, output_tokens=4),
        total=10,
    )
    await house.tokens.publish_and_confirm(TENANT, "s", 1, closed)

    async def take_over() -> PriceTable:
        # Between what `late` has read and what it appends.
        await house.sessions.handle(TENANT, "s", ClaimTurn(1, "other", Policies()), TESTER)
        return PriceTable("none", {})

    pricing = replace(late.outcomes.pricing, load_prices=take_over)
    late.outcomes = replace(late.outcomes, pricing=pricing)
    late.ack_wait = 0.0
    verdict = await late.run_turn(build_delivery(submitted, redelivered=True))
    assert verdict == DeliverySuperseded()
    opened = (await house.load_state()).open
    assert opened is not None
    assert opened.attempt == 2


async def test_worker_that_lost_its_claim_does_not_acknowledge_the_message() -> None:
    house = SessionHarness()
    await house.open_session()
    gate = asyncio.Event()
    house.model.scripts = [["mine", gate], ["theirs"]]
    submitted = await house.submit_turn("Hi")
    zombie = asyncio.create_task(house.build_worker("zombie").run_turn(build_delivery(submitted)))
    await house.wait_for_event(ContextAssembled)
    done = await house.sessions.handle(TENANT, "s", ClaimTurn(1, "thief", Policies()), TESTER)
    assert done.state.open
    assert done.state.open.attempt == 2
    assert await zombie == DeliverySuperseded()
    ended = list_attempt_ends(house)
    assert [end.outcome for end in ended] == ["lost", "cancelled"]
    assert "turn-completed" not in house.list_event_names()


async def test_cancelled_turn_closes_the_stream_and_records_estimated_usage() -> None:
    house = SessionHarness()
    await house.open_session()
    house.model.scripts = [["never ", "mind", asyncio.Event()]]
    submitted = await house.submit_turn("Hi")
    working = asyncio.create_task(house.build_worker().run_turn(build_delivery(submitted)))
    await house.wait_for_tokens(2)
    await house.sessions.handle(TENANT, "s", CancelTurn(), TESTER)
    assert await working == DeliverySettled()
    assert house.model.closed_count == 1
    own = list_attempt_ends(house)[-1]
    assert own.outcome == "cancelled"
    assert own.usage.known == "estimated"
    assert isinstance(find_last_event(house, TurnCancelled).event, TurnCancelled)
    state = await house.load_state()
    assert state.turns[0].status == "cancelled"


async def test_rate_limited_call_is_retried_and_every_attempt_is_recorded() -> None:
    house = SessionHarness()
    await house.open_session(retries={"max": 2, "base_seconds": 0})
    limited = ModelFailure("rate_limited", "slow down")
    house.model.scripts = [[limited], [limited], ["at last"]]
    assert await house.run_turn(await house.submit_turn("Hi")) == DeliverySettled()
    started = [e.event for e in house.list_events() if isinstance(e.event, AttemptStarted)]
    assert [start.attempt for start in started] == [1, 2, 3]
    assert house.list_event_names().count("context-assembled") == 1
    assert house.list_event_names()[-1] == "turn-completed"


async def test_permanent_failure_fails_the_turn_with_its_code() -> None:
    house = SessionHarness()
    await house.open_session()
    house.model.scripts = [[ModelFailure("unauthorised", "the key is not accepted")]]
    assert await house.run_turn(await house.submit_turn("Hi")) == DeliverySettled()
    failed = find_last_event(house, TurnFailed).event
    assert isinstance(failed, TurnFailed)
    assert (failed.code, failed.retryable) == ("unauthorised", False)


async def test_a_prompt_that_cannot_fit_fails_the_turn_before_any_call() -> None:
    house = SessionHarness()
    await house.open_session()
    assert await house.run_turn(await house.submit_turn("x" * 5000)) == DeliverySettled()
    failed = find_last_event(house, TurnFailed).event
    assert isinstance(failed, TurnFailed)
    assert failed.code == "over-budget"
    assert house.model.requests == []


async def test_a_turn_past_its_deadline_fails_at_the_next_delivery() -> None:
    house = SessionHarness()
    await house.open_session(deadline_seconds=5)
    submitted = await house.submit_turn("Hi")
    house.clock.advance_time(6)
    assert await house.run_turn(submitted) == DeliverySettled()
    failed = find_last_event(house, TurnFailed).event
    assert isinstance(failed, TurnFailed)
    assert failed.code == "deadline"
    assert house.model.requests == []


async def test_running_worker_enforces_the_turn_deadline() -> None:
    house = SessionHarness()
    await house.open_session(deadline_seconds=0.2)
    house.model.scripts = [["slow", asyncio.Event()]]
    assert await house.run_turn(await house.submit_turn("Hi")) == DeliverySettled()
    failed = find_last_event(house, TurnFailed).event
    assert isinstance(failed, TurnFailed)
    assert failed.code == "deadline"


async def test_stopping_worker_returns_its_turn_to_the_queue() -> None:
    house = SessionHarness()
    await house.open_session()
    house.model.scripts = [["half", asyncio.Event()], ["whole"]]
    submitted = await house.submit_turn("Hi")
    worker = house.build_worker("leaving")
    working = asyncio.create_task(worker.run_turn(build_delivery(submitted)))
    await house.wait_for_tokens(2, turn=1)
    worker.stop_requested.set()
    assert await working == DeliveryDeferred(0)
    assert await house.run_redelivered_turn(submitted) == DeliverySettled()
    assert house.list_event_names()[-1] == "turn-completed"


async def test_concurrent_event_of_another_writer_does_not_interrupt_the_answer() -> None:
    house = SessionHarness()
    await house.open_session()
    await house.run_turn(await house.submit_turn("First"))
    gate = asyncio.Event()
    house.model.scripts = [["second", gate]]
    submitted = await house.submit_turn("Second")
    working = asyncio.create_task(house.build_worker().run_turn(build_delivery(submitted)))
    await house.wait_for_tokens(2, turn=2)
    await house.sessions.handle(TENANT, "s", ExcludeTurn(1), TESTER)
    gate.set()
    assert await working == DeliverySettled()
    assert house.list_event_names()[-1] == "turn-completed"


async def test_retry_after_a_source_change_is_a_new_call_superseding_the_old_one() -> None:
    house = SessionHarness()
    await house.open_session(retries={"max": 1, "base_seconds": 0})
    await house.run_turn(await house.submit_turn("First"))
    gate = asyncio.Event()
    house.model.scripts = [[gate, ModelFailure("server_error")], ["fine"]]
    submitted = await house.submit_turn("Second")
    working = asyncio.create_task(house.build_worker().run_turn(build_delivery(submitted)))
    await house.wait_for_event(ContextAssembled, number=2)
    await house.wait_for_tokens(1, turn=2)
    await house.sessions.handle(TENANT, "s", ExcludeTurn(1), TESTER)
    gate.set()
    assert await working == DeliverySettled()
    fixed = [e.event for e in house.list_events() if isinstance(e.event, ContextAssembled)]
    assert [(f.call, f.supersedes) for f in fixed] == [
        ("1.1", None),
        ("2.1", None),
        ("2.2", "2.1"),
    ]


async def test_retry_with_another_request_body_is_a_new_call() -> None:
    house = SessionHarness()
    await house.open_session(retries={"max": 2, "base_seconds": 0})
    failure = ModelFailure("server_error")
    house.model.scripts = [[failure], [failure], ["fine"]]

    def is_early(_: str) -> bool:
        return house.list_event_names().count("attempt-started") < 3

    worker = house.build_worker()
    worker.contexts = replace(worker.contexts, sends_body=is_early)
    assert await house.run_turn(await house.submit_turn("Hi"), worker) == DeliverySettled()
    fixed = [e.event for e in house.list_events() if isinstance(e.event, ContextAssembled)]
    assert [(f.call, f.supersedes, f.body_digest is None) for f in fixed] == [
        ("1.1", None, False),
        ("1.2", "1.1", True),
    ]


@pytest.mark.parametrize("queued", [1, 5])
async def test_queued_turns_are_answered_in_order(queued: int) -> None:
    house = SessionHarness()
    await house.open_session()
    events = [await house.submit_turn(f"turn {n}") for n in range(queued + 1)]
    assert house.list_event_names().count("turn-queued") == queued
    await house.run_turn(events[0])
    for _ in range(queued):
        released = house.list_events()[-1]
        await house.run_turn(released)
    state = await house.load_state()
    assert [ref.turn for ref in state.turns] == list(range(1, queued + 2))
    assert state.open is None


async def test_attempt_alive_event_is_published_before_the_prompt_is_assembled() -> None:
    house = SessionHarness()
    await house.open_session()
    await house.run_turn(await house.submit_turn("Hi"))
    first = (await house.tokens.read_token_events(TENANT, "s", 1))[0].event
    assert first == AttemptAlive(call="1.1", attempt=1)


async def test_recorded_cost_names_its_price_table_and_survives_price_changes(
    tmp_path: Path,
) -> None:
    house, file = SessionHarness(), tmp_path / "prices.json"
    await house.open_session()
    for dollars in (100, 900):
        file.write_text(json.dumps({"puppet/one": {"input": dollars, "output": 0}}))
        worker = house.build_worker()
        prices = ModelPrices(file).load_table
        pricing = replace(worker.outcomes.pricing, load_prices=prices)
        outcomes = replace(worker.outcomes, pricing=pricing)
        await house.run_turn(await house.submit_turn("Hi"), replace(worker, outcomes=outcomes))
    first, second = (end.cost for end in list_attempt_ends(house))
    assert (first.micro_dollars, second.micro_dollars) == (1_000, 9_000)
    assert (first.price, second.price) == ("exact", "exact")
    assert "+own-" in first.table
    assert "+own-" in second.table
    assert first.table != second.table


async def test_turn_handed_back_during_a_retry_delay_records_no_request_timings() -> None:
    house = SessionHarness()
    await house.open_session(retries={"max": 1, "base_seconds": 3_600, "cap_seconds": 3_600})
    house.model.scripts = [[ModelFailure("rate_limited")]]
    worker = house.build_worker()

    def stop_before_the_delay() -> float:
        worker.stop_requested.set()
        return 0.0

    outcomes = replace(worker.outcomes, jitter=stop_before_the_delay)
    await house.run_turn(await house.submit_turn("Hi"), replace(worker, outcomes=outcomes))
    sent, unsent = list_attempt_ends(house)
    assert (sent.timings is None, unsent.timings) == (False, None)
    assert unsent.fault is not None
    assert unsent.fault.code == "handed-back"


async def test_heartbeats_say_that_a_silent_model_thinks() -> None:
    house, answered = SessionHarness(), asyncio.Event()
    await house.open_session()
    house.model.scripts = [[answered, "Good day."]]
    worker = house.build_worker()
    heartbeat = AttemptHeartbeat(worker.sessions, house.tokens, interval=0.01)
    worker = replace(worker, heartbeat=heartbeat)
    submitted = await house.submit_turn("Hi")
    wake = asyncio.Event()
    async with (
        asyncio.timeout(20),
        house.tokens.open_turn_watch(TENANT, "s", 1, wake) as watch,
        asyncio.TaskGroup() as running,
    ):
        running.create_task(house.run_turn(submitted, worker))
        while not await list_activities(house):
            await wake.wait()
            wake.clear()
            while await watch.take_next():
                pass
        answered.set()
    assert set(await list_activities(house)) == {"think"}
    assert isinstance(house.list_events()[-1].event, TurnCompleted)


async def list_activities(house: SessionHarness) -> list[WorkerActivity]:
    events = [each.event for each in await house.tokens.read_token_events(TENANT, "s", 1)]
    return [each.doing for each in events if isinstance(each, AttemptAlive) and each.doing]
