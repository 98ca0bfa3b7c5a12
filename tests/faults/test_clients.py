"""Clients that come all at once, repeat everything, or leave: one effect, one order."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.faults.attacked_service import AttackedService
from tests.faults.checks.evidence_collection import assert_no_findings
from tests.faults.clients.attack_client import AttackClient
from tests.faults.clients.client_history import ClientHistory, CommandTry
from tests.faults.suite_extent import RUN_EVERYTHING
from tests.support.servers.model_behaviours import EchoAnswer
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.model.turn_events import TurnCancelled

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(400),
    pytest.mark.slow("processes are attacked and have to recover"),
]

CROWD = 500


async def submit_once(client: AttackClient, key: str, text: str) -> CommandTry:
    path = f"/v1/sessions/{client.session}/turns"
    return await client.send_once("submit", path, {"text": text}, key, text)


@pytest.mark.promise("P3", "P5")
@pytest.mark.parametrize("count", [2, 50 if RUN_EVERYTHING else 12])
@pytest.mark.parametrize(("blueprint", "winners"), [("rejecting", 1), ("assistant", None)])
async def test_concurrent_commands_each_succeed_or_return_409(
    attacked: AttackedService,
    client: AttackClient,
    history: ClientHistory,
    count: int,
    blueprint: str,
    winners: int | None,
) -> None:
    gate = asyncio.Event()
    attacked.provider.queue_behaviours(EchoAnswer(gates={0: gate}))
    await client.open_session(blueprint)
    tries = await asyncio.gather(
        *(submit_once(client, f"at-once-{n}", f"Number {n}") for n in range(count))
    )
    gate.set()
    accepted = [tried for tried in tries if tried.accepted]
    assert len(accepted) == (winners or count)
    assert {tried.status for tried in tries if not tried.accepted} <= {409}
    assert sorted(tried.body["turn"] for tried in accepted) == list(range(1, len(accepted) + 1))
    await assert_no_findings(attacked, history)


@pytest.mark.promise("P4")
async def test_command_is_recognised_by_its_key_after_restart_of_every_process(
    attacked: AttackedService, client: AttackClient, history: ClientHistory
) -> None:
    await client.open_session()
    first = await submit_once(client, "again", "Once")
    await client.watch_turn(first.body["turn"])
    await attacked.kill_processes(*attacked.list_processes("gateway", "projector", "worker"))
    await attacked.start_missing()
    second = await submit_once(client, "again", "Once")
    assert (second.status, dict(second.body)) == (first.status, dict(first.body))
    other = await attacked.service.http.post(
        f"/v1/sessions/{client.session}/turns",
        json={"text": "Twice"},
        headers={"Idempotency-Key": "again"},
    )
    assert (other.status_code, other.json()["code"]) == (409, "key-reused")
    await assert_no_findings(attacked, history)


@pytest.mark.promise("P7")
async def test_cancelled_turn_closes_the_provider_connection_at_once(
    attacked: AttackedService, client: AttackClient, history: ClientHistory
) -> None:
    exchange_count = len(attacked.provider.exchanges)
    attacked.provider.queue_behaviours(EchoAnswer(gates={1: asyncio.Event()}))
    await client.open_session()
    turn = await client.submit_turn()
    exchange = await attacked.provider.wait_for_exchange(exchange_count + 1)
    await attacked.service.wait_for_worker_pid(client.session)
    began = time.monotonic()
    answer = await attacked.service.http.post(f"/v1/sessions/{client.session}/cancel")
    assert answer.is_success
    await exchange.client_left.wait()
    print(f"the provider was left {time.monotonic() - began:.2f} s after the cancel")
    assert (await client.watch_turn(turn)).end == "cancelled"
    await attacked.service.wait_for_event(client.session, TurnCancelled)
    await attacked.service.wait_for_event(
        client.session, AttemptEnded, such=lambda ended: ended.outcome == "cancelled"
    )
    await assert_no_findings(attacked, history)


@pytest.mark.promise("P8", "P14")
async def test_five_hundred_watchers_reconnect_at_once_and_receive_the_same_reply(
    attacked: AttackedService, client: AttackClient, history: ClientHistory
) -> None:
    gate, exchange_count = asyncio.Event(), len(attacked.provider.exchanges)
    attacked.provider.queue_behaviours(EchoAnswer(gates={1: gate}))
    await client.open_session("persistent")
    turn = await client.submit_turn()
    await attacked.provider.wait_for_exchange(exchange_count + 1)
    async with asyncio.TaskGroup() as tasks:
        watching = [tasks.create_task(client.watch_turn(turn)) for _ in range(CROWD)]
        await attacked.kill_processes(attacked.get_process("gateway"))
        await attacked.start_missing()
        gate.set()
    assert {task.result().end for task in watching} == {"done"}
    assert len({task.result().text for task in watching}) == 1
    await assert_no_findings(attacked, history)
