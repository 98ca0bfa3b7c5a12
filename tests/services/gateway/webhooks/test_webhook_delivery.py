"""Deliveries: signed, in the order of each session, each at least once, and tried again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from pydantic import SecretStr

from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.webhooks.webhook_stand import (
    TERMS,
    WatchedDeliverer,
    WebhookStand,
    list_positions_of,
    open_webhook_stand,
)
from tests.support.webhooks.webhook_receiver import (
    BAD,
    GOOD,
    Answer,
    Delivery,
    WebhookReceiver,
)
from turnlog.services.webhooks.delivery.webhook_sender import MAX_ANSWER_BYTES


@pytest_asyncio.fixture
async def hooks(idle: RunningGateway) -> AsyncIterator[WebhookStand]:
    receiver = WebhookReceiver()
    async with receiver.listen(), open_webhook_stand(idle, receiver) as stand:
        yield stand


async def wait_until_idle(deliverer: WatchedDeliverer) -> None:
    """Wait until a process delivers nothing any more."""
    async with asyncio.timeout(30):
        while deliverer.count_running():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


async def test_every_event_is_delivered_once_and_in_the_order_of_its_session(
    hooks: WebhookStand,
) -> None:
    sessions = [await hooks.play_session(3) for _ in range(4)]
    await hooks.add_webhook()
    async with hooks.deliver():
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
        later = await hooks.play_session(2)
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
    by_session = hooks.receiver.list_by_session()
    assert set(by_session) == {*sessions, later}
    for session, positions in by_session.items():
        assert positions == await hooks.list_positions(session)
    shown = (await hooks.fetch_webhook())["webhook"]
    assert (shown["after"], shown["waiting"]) == ((await hooks.list_positions())[-1], 0)
    assert shown["delivered"] == len(hooks.receiver.accepted)


async def test_delivery_is_signed_and_has_the_event_as_streams_have_it_and_its_cursor(
    hooks: WebhookStand,
) -> None:
    session = await hooks.play_session()
    await hooks.add_webhook()
    async with hooks.deliver():
        positions = await hooks.list_positions()
        await hooks.receiver.wait_for_positions(set(positions))
    page = await hooks.gateway.fetch_json("/v1/events")
    first = hooks.receiver.accepted[0]
    assert first.message["data"] == page["events"][0]
    assert first.message["type"] == page["events"][0]["type"]
    assert (first.message["webhook"], first.session) == ("billing", session)
    rest = await hooks.gateway.fetch_json("/v1/events", after=first.position)
    assert rest["events"] == page["events"][1:]
    for delivery in hooks.receiver.accepted:
        assert delivery.has_signature_of(hooks.secrets["billing"])
        assert not delivery.has_signature_of("whsec_" + "A" * 43 + "=")
        assert delivery.headers["content-type"] == "application/json"
    ids = {each.headers["webhook-id"] for each in hooks.receiver.accepted}
    assert len(ids) == len(positions)


async def test_filters_choose_types_blueprint_and_attributes(hooks: WebhookStand) -> None:
    chosen = await hooks.play_session(2, attributes={"desk": "d-7"})
    other = await hooks.play_session(1, attributes={"desk": "d-8"})
    await hooks.play_session(1, blueprint="assistant", attributes={})
    await hooks.add_webhook("typed", types=["turn-cancelled", "session-opened"])
    await hooks.add_webhook("desk", attributes={"desk": "d-7"}, types=["turn-cancelled"])
    await hooks.add_webhook("clerks", blueprint="clerk", types=["session-opened"])
    wanted = {
        "typed": await hooks.list_positions(None, "turn-cancelled", "session-opened"),
        "desk": await hooks.list_positions(chosen, "turn-cancelled"),
        "clerks": [
            *await hooks.list_positions(chosen, "session-opened"),
            *await hooks.list_positions(other, "session-opened"),
        ],
    }
    end = (await hooks.list_positions())[-1]
    async with hooks.deliver():
        for name in wanted:
            await hooks.wait_for_webhook(lambda shown: shown["webhook"]["after"] >= end, name)
    for name, positions in wanted.items():
        got = [each for each in hooks.receiver.accepted if each.message["webhook"] == name]
        assert sorted(list_positions_of(got)) == sorted(positions), name


async def test_failing_session_holds_up_no_other_and_is_delivered_in_order_once_it_works(
    hooks: WebhookStand,
) -> None:
    failing = await hooks.play_session(2)
    others = [await hooks.play_session(2) for _ in range(3)]
    works = asyncio.Event()

    async def answer(delivery: Delivery) -> Answer:
        return BAD if delivery.session == failing and not works.is_set() else GOOD

    hooks.receiver.answer = answer
    await hooks.add_webhook()
    async with hooks.deliver(replace(TERMS, retry_delays=(0.02,) * 100)):
        for session in others:
            await hooks.receiver.wait_for_positions(set(await hooks.list_positions(session)))
        later = await hooks.play_session()
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions(later)))
        shown = await hooks.wait_for_webhook(lambda shown: bool(shown["sessions"]))
        (behind,) = shown["sessions"]
        assert (behind["session"], behind["after"], behind["given_up"]) == (failing, 0, False)
        assert behind["failure"]["status"] == 503
        assert shown["webhook"]["behind"] == 1
        works.set()
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
        await hooks.wait_for_webhook(lambda shown: not shown["sessions"])
    for session, positions in hooks.receiver.list_by_session().items():
        assert positions == await hooks.list_positions(session)


async def test_receiver_that_was_down_gets_each_event_once_it_is_up(idle: RunningGateway) -> None:
    receiver = WebhookReceiver()
    async with receiver.listen():
        pass
    async with open_webhook_stand(idle, receiver) as hooks:
        sessions = [await hooks.play_session(2) for _ in range(5)]
        await hooks.add_webhook()
        async with hooks.deliver(replace(TERMS, retry_delays=(0.05,) * 500)):
            shown = await hooks.wait_for_webhook(lambda shown: len(shown["sessions"]) == 5)
            assert shown["webhook"]["delivered"] == 0
            assert "could not be reached" in shown["webhook"]["failure"]["detail"]
            async with receiver.listen():
                await receiver.wait_for_positions(set(await hooks.list_positions()))
                await hooks.wait_for_webhook(lambda shown: not shown["sessions"])
        for session in sessions:
            assert receiver.list_by_session()[session] == await hooks.list_positions(session)


async def test_session_is_given_up_after_the_last_try_and_delivered_again_on_request(
    hooks: WebhookStand,
) -> None:
    failing, works = await hooks.play_session(1), False

    async def answer(delivery: Delivery) -> Answer:
        return BAD if delivery.session == failing and not works else GOOD

    hooks.receiver.answer = answer
    await hooks.add_webhook()
    async with hooks.deliver():
        shown = await hooks.wait_for_webhook(lambda shown: shown["webhook"]["given_up"] == 1)
        tried = [each for each in hooks.receiver.tried if each.session == failing]
        assert len(tried) == len(TERMS.retry_delays) + 1
        assert len({each.headers["webhook-id"] for each in tried}) == 1
        assert shown["sessions"][0]["next_try"] is None
        # What comes after it waits with it, and the others go on.
        await hooks.gateway.submit_turn(failing)
        other = await hooks.play_session(1)
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions(other)))
        refused = await hooks.gateway.http.post(
            "/v1/webhooks/billing/redeliver", json={"session": other}
        )
        assert (refused.status_code, refused.json()["code"]) == (409, "not-given-up")
        works = True
        await hooks.send("redeliver", session=failing)
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions(failing)))
        await hooks.wait_for_webhook(lambda shown: not shown["sessions"])
    assert hooks.receiver.list_by_session()[failing] == await hooks.list_positions(failing)


async def test_webhook_that_accepts_nothing_is_stopped_and_goes_on_when_it_is_resumed(
    hooks: WebhookStand,
) -> None:
    for _ in range(4):
        await hooks.play_session(1)
    works = False

    async def answer(delivery: Delivery) -> Answer:
        del delivery
        return GOOD if works else BAD

    hooks.receiver.answer = answer
    await hooks.add_webhook()
    async with hooks.deliver():
        shown = await hooks.wait_for_webhook(lambda shown: shown["webhook"]["status"] == "stopped")
        assert shown["webhook"]["failure"]["status"] == 503
        assert shown["webhook"]["given_up"] == 0, "none of them is lost"
        works = True
        await hooks.play_session(1)
        assert hooks.receiver.accepted == []
        await hooks.send("resume")
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
        shown = await hooks.wait_for_webhook(lambda shown: not shown["sessions"])
        assert (shown["webhook"]["status"], shown["webhook"]["failure"]) == ("active", None)
    for session, positions in hooks.receiver.list_by_session().items():
        assert positions == await hooks.list_positions(session)


async def test_receiver_that_is_gone_stops_the_webhook_at_once(hooks: WebhookStand) -> None:
    async def answer(delivery: Delivery) -> Answer:
        del delivery
        return b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"

    hooks.receiver.answer = answer
    await hooks.play_session(1)
    await hooks.add_webhook()
    async with hooks.deliver():
        await hooks.wait_for_webhook(lambda shown: shown["webhook"]["status"] == "stopped")
    assert len(hooks.receiver.tried) == 1


async def test_paused_webhook_gets_nothing_and_goes_on_where_it_was(hooks: WebhookStand) -> None:
    await hooks.play_session(2)
    await hooks.add_webhook()
    async with hooks.deliver() as deliverer:
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
        await hooks.send("pause")
        await wait_until_idle(deliverer)
        count = len(hooks.receiver.tried)
        await hooks.play_session(2)
        assert (await hooks.fetch_webhook())["webhook"]["status"] == "paused"
        assert len(hooks.receiver.tried) == count
        await hooks.send("resume")
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
    assert sorted(list_positions_of(hooks.receiver.accepted)) == await hooks.list_positions()


async def test_pause_in_the_middle_of_a_batch_repeats_nothing(hooks: WebhookStand) -> None:
    for _ in range(6):
        await hooks.play_session(3)
    held, go_on = asyncio.Event(), asyncio.Event()

    async def answer(delivery: Delivery) -> Answer:
        if len(hooks.receiver.tried) >= 20:
            held.set()
            await go_on.wait()
        del delivery
        return GOOD

    hooks.receiver.answer = answer
    await hooks.add_webhook()
    async with hooks.deliver() as deliverer:
        await asyncio.wait_for(held.wait(), 30)
        await hooks.send("pause")
        await deliverer.service.wait_for_looks(2)
        go_on.set()
        await wait_until_idle(deliverer)
        assert len(hooks.receiver.accepted) < len(await hooks.list_positions())
        await hooks.send("resume")
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
    for session, positions in hooks.receiver.list_by_session().items():
        assert positions == await hooks.list_positions(session)


async def test_redirects_are_not_followed(hooks: WebhookStand) -> None:
    trap = WebhookReceiver()
    async with trap.listen():
        location = f"Location: {trap.url}\r\n".encode()

        async def answer(delivery: Delivery) -> Answer:
            del delivery
            return b"HTTP/1.1 307 Moved\r\n" + location + b"Content-Length: 0\r\n\r\n"

        hooks.receiver.answer = answer
        await hooks.play_session(1)
        await hooks.add_webhook()
        async with hooks.deliver():
            shown = await hooks.wait_for_webhook(lambda shown: shown["webhook"]["given_up"] == 1)
        assert "redirects are not followed" in shown["webhook"]["failure"]["detail"]
        assert trap.tried == []


async def test_address_that_is_allowed_no_longer_gets_nothing(hooks: WebhookStand) -> None:
    await hooks.play_session(1)
    await hooks.add_webhook()
    async with hooks.deliver(targets=("https://hooks.example.org",)):
        shown = await hooks.wait_for_webhook(lambda shown: shown["webhook"]["given_up"] == 1)
    assert "TURNLOG_WEBHOOK_TARGETS" in shown["webhook"]["failure"]["detail"]
    assert hooks.receiver.tried == []


@pytest.mark.usefixtures("loop_holds")
async def test_answer_without_an_end_is_cut_off_by_time_and_a_huge_one_by_size(
    hooks: WebhookStand,
) -> None:
    slow = await hooks.play_session(0)
    huge = await hooks.play_session(0)
    endless = asyncio.Event()

    async def answer(delivery: Delivery) -> Answer:
        if delivery.session == slow:
            await endless.wait()
        # It announces a petabyte and never sends it, so whoever reads on waits in vain.
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {10**15}\r\n\r\n".encode()
        return head + b"x" * 2 * MAX_ANSWER_BYTES

    hooks.receiver.answer = answer
    await hooks.add_webhook()
    async with hooks.deliver(replace(TERMS, retry_delays=(0.01,)), seconds=0.5):
        shown = await hooks.wait_for_webhook(
            lambda shown: shown["webhook"]["given_up"] == 1 and shown["webhook"]["delivered"] == 1
        )
        (behind,) = shown["sessions"]
    assert behind["session"] == slow
    assert "no whole answer within 0.5 seconds" in behind["failure"]["detail"]
    assert huge not in {each["session"] for each in shown["sessions"]}


@pytest.mark.usefixtures("loop_holds")
async def test_deliveries_at_once_are_bounded(hooks: WebhookStand) -> None:
    for _ in range(20):
        await hooks.play_session(0)
    await hooks.add_webhook()
    async with hooks.deliver(replace(TERMS, at_once=3)) as deliverer:
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
    assert max(deliverer.sender.counts) == 3


@pytest.mark.parametrize("kept", ["saved", "unsaved"])
async def test_deliverer_that_died_is_followed_by_one_that_skips_nothing(
    hooks: WebhookStand, kept: str
) -> None:
    for _ in range(5):
        await hooks.play_session(4)
    stuck = asyncio.Event()

    async def answer(delivery: Delivery) -> Answer:
        del delivery
        if len(hooks.receiver.tried) == 30:
            stuck.set()
            await asyncio.Event().wait()
        return GOOD

    hooks.receiver.answer = answer
    await hooks.add_webhook()
    terms = TERMS if kept == "saved" else replace(TERMS, save_seconds=1_000)
    async with hooks.deliver(terms, is_dying=True):
        await asyncio.wait_for(stuck.wait(), 30)
    async with hooks.deliver():
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
    for session, positions in hooks.receiver.list_by_session().items():
        first_seen = list(dict.fromkeys(positions))
        assert first_seen == await hooks.list_positions(session), "none is skipped"


async def test_reply_that_is_withheld_before_it_is_delivered_is_not_in_any_delivery(
    stand: RunningGateway,
) -> None:
    receiver = WebhookReceiver()
    async with receiver.listen(), open_webhook_stand(stand, receiver) as hooks:
        session = await stand.open_session()
        await stand.submit_and_answer(session, "Which word?", "xylophone")
        body = {"turn": 1, "reason": "asked for"}
        answer = await stand.http.post(f"/v1/sessions/{session}/redactions", json=body)
        assert answer.status_code == 200, answer.text
        await hooks.add_webhook()
        async with hooks.deliver():
            await receiver.wait_for_positions(set(await hooks.list_positions()))
    bodies = b"".join(each.body for each in receiver.accepted)
    assert b"Which word?" in bodies
    assert b"xylophone" not in bodies
    (completed,) = (each for each in receiver.accepted if each.name == "turn-completed")
    (redacted,) = (each for each in receiver.accepted if each.name == "reply-redacted")
    assert completed.message["data"]["withheldby"] == redacted.message["data"]["sequence"]


async def test_webhook_whose_key_has_changed_is_shown_as_stopped_and_signs_nothing(
    hooks: WebhookStand,
) -> None:
    await hooks.play_session(1)
    await hooks.add_webhook()
    async with hooks.deliver(key="ab" * 32) as deliverer:
        await deliverer.service.wait_for_looks(3)
        await wait_until_idle(deliverer)
    assert hooks.receiver.tried == []
    async with hooks.gateway.start_another_gateway(webhook_key=SecretStr("ab" * 32)) as changed:
        (shown,) = (await changed.fetch_json("/v1/webhooks"))["webhooks"]
    assert shown["status"] == "stopped"
    assert "TURNLOG_WEBHOOK_KEY" in shown["failure"]["detail"]


async def test_place_is_recorded_at_most_once_in_a_while_and_not_while_nothing_happens(
    hooks: WebhookStand,
) -> None:
    for _ in range(4):
        await hooks.play_session(4)
    await hooks.add_webhook()
    async with hooks.deliver(replace(TERMS, save_seconds=60)):
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
    names = await hooks.list_place_events()
    assert names == ["webhook-claimed", "webhook-advanced", "webhook-advanced"]
    assert len(hooks.receiver.accepted) > 10 * len(names)


async def test_event_that_fails_is_accepted_before_the_next_one_of_its_session_is_sent(
    hooks: WebhookStand,
) -> None:
    session = await hooks.play_session(4)
    positions = await hooks.list_positions(session)
    left = {positions[0]: 2, positions[3]: 3, positions[-1]: 1}

    async def answer(delivery: Delivery) -> Answer:
        left[delivery.position] = left.get(delivery.position, 0) - 1
        return BAD if left[delivery.position] >= 0 else GOOD

    hooks.receiver.answer = answer
    await hooks.add_webhook()
    async with hooks.deliver():
        await hooks.receiver.wait_for_positions(set(positions))
    tried = list_positions_of(hooks.receiver.tried)
    assert tried == sorted(tried), "nothing is sent before what comes first"
    assert list_positions_of(hooks.receiver.accepted) == positions


async def test_failed_tries_are_recorded_less_often_than_deliveries(hooks: WebhookStand) -> None:
    await hooks.play_session(1)
    await hooks.play_session(1)

    async def answer(delivery: Delivery) -> Answer:
        del delivery
        return BAD

    hooks.receiver.answer = answer
    await hooks.add_webhook()
    terms = replace(TERMS, retry_delays=(0.02,) * 100, save_seconds=0.01, failure_save_seconds=60)
    async with hooks.deliver(terms):
        await hooks.receiver.wait_for(lambda: len(hooks.receiver.tried) >= 60)
    names = await hooks.list_place_events()
    assert len(names) <= 5, "the claim, two sessions that fell behind, and the end"
    shown = await hooks.fetch_webhook()
    assert min(each["tries"] for each in shown["sessions"]) > 5


async def test_what_was_not_for_a_webhook_moves_its_place_too(hooks: WebhookStand) -> None:
    await hooks.add_webhook(types=["session-closed"])
    async with hooks.deliver():
        await hooks.play_session(2)
        end = (await hooks.list_positions())[-1]
        await hooks.wait_for_webhook(lambda shown: shown["webhook"]["after"] == end)
    assert hooks.receiver.tried == []
