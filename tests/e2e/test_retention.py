"""Policies and holds over HTTP on sealed sessions: what they refuse, and what erases by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.e2e.test_erased_words import SECRET, add_turns, erase, run_turns
from tests.e2e.test_interrupted_erasures import (
    CALLER,
    StoppedBeforeParts,
    StoppedBetweenKeys,
    open_erasure_parts,
    require_folded,
)
from tests.support.processes.live_service import TENANT
from tests.support.processes.turnlog_up import TurnlogUp
from tests.support.servers.openai_server import OpenAIServer
from turnlog.contract.installation.retention_payloads import DueSessions
from turnlog.events.content import PlainText
from turnlog.events.errors import Unavailable
from turnlog.events.model.redaction_events import ContentErased, ErasedTurn
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.services.erasures import erasure_service
from turnlog.services.erasures.erasure_service import ErasureService
from turnlog.services.erasures.erasure_tracing import ErasureTarget
from turnlog.services.platform.clock import read_clock
from turnlog.services.retention import due_erasures
from turnlog.services.retention.due_erasures import SCHEDULE, DueErasures

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("a service starts"),
]

LAW = "Commercial Code, section 257"


async def set_policy(up: TurnlogUp, name: str, **form: object) -> dict[str, Any]:
    answer = await up.service.http.put("/v1/retention/policies", json={"name": name, **form})
    assert answer.is_success, answer.text
    return dict(answer.json())


async def remove_policy(up: TurnlogUp, name: str) -> None:
    answer = await up.service.http.delete(f"/v1/retention/policies/{name}")
    assert answer.is_success, answer.text


async def place_hold(up: TurnlogUp, name: str, **form: object) -> dict[str, Any]:
    body = {"name": name, "reason": "case 4711", **form}
    answer = await up.service.http.post("/v1/retention/holds", json=body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def release_hold(up: TurnlogUp, name: str) -> None:
    answer = await up.service.http.post(
        f"/v1/retention/holds/{name}/release", json={"reason": "case 4711 is closed"}
    )
    assert answer.is_success, answer.text


async def refuse_erasure(up: TurnlogUp, session: str, **form: object) -> dict[str, Any]:
    body = {"reason": "request", **form}
    answer = await up.service.http.post(f"/v1/sessions/{session}/erasures", json=body)
    assert answer.status_code == 409, answer.text
    return dict(answer.json())


async def label(up: TurnlogUp, session: str, *labels: str) -> None:
    answer = await up.service.http.patch(f"/v1/sessions/{session}", json={"labels": [*labels]})
    assert answer.is_success, answer.text
    async with open_erasure_parts(up) as parts:
        await require_folded(parts, session, answer.json()["sequence"])


async def run_round(up: TurnlogUp, after: timedelta) -> DueSessions:
    """Run a round of another gateway, whose clock is ahead."""
    async with open_erasure_parts(up, lambda: read_clock() + after) as parts:
        due = DueErasures(erasures=ErasureService(**parts), guard=parts["guard"])
        return await due.run_round(TENANT, SCHEDULE)


async def read_words(up: TurnlogUp, session: str) -> set[str | None]:
    history = await up.service.get_json(f"/v1/sessions/{session}/history")
    return {turn["text"] for turn in history["turns"]}


async def test_floor_refuses_every_erasure_with_the_law_and_its_end(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    session = await run_turns(sealed_up, provider, "one", "two")
    await label(sealed_up, session, "invoice")
    form = {"where": {"labels": ["invoice"]}, "keep_for": "3650d", "law": LAW}
    result = await set_policy(sealed_up, "invoices", **form)
    assert (result["policy"]["keep_for"], result["sessions"]) == ("3650d", 1)
    for asked in ({}, {"dry_run": True}, {"turn": 1}, {"turn": 2, "of": "text"}):
        refused = await refuse_erasure(sealed_up, session, **asked)
        assert refused["code"] == "retained"
        assert LAW in refused["detail"]
        assert "`invoices`" in refused["detail"]
    until = datetime.fromisoformat(refused["fix"].removeprefix("erase it after "))
    assert timedelta(days=3649) < until - read_clock() < timedelta(days=3650)
    await label(sealed_up, session)
    assert (await erase(sealed_up, session, turn=1))["status"] == "erased"
    await label(sealed_up, session, "invoice")
    await remove_policy(sealed_up, "invoices")
    assert (await erase(sealed_up, session))["status"] == "erased"


async def test_erasure_of_a_turn_does_not_begin_the_time_of_a_floor_again(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    session = await run_turns(sealed_up, provider, "one", "two")
    form = {"where": {"blueprint": "uderia"}, "keep_for": "30d", "law": LAW}
    await set_policy(sealed_up, "month", **form)
    async with open_erasure_parts(sealed_up, lambda: read_clock() + timedelta(days=31)) as parts:
        service = ErasureService(**parts)
        for turn in (1, 2):
            turns = (ErasedTurn(turn=turn, of="turn"),)
            target = ErasureTarget(tenant=TENANT, session=session, turns=turns)
            begun = await service.begin_erasure(CALLER, target, "request 4711")
            await service.finish_erasure(TENANT, session, begun)
    await remove_policy(sealed_up, "month")
    assert await read_words(sealed_up, session) == {"[erased]"}


async def test_hold_refuses_with_who_and_why_until_it_is_released(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    session = await run_turns(sealed_up, provider, "one")
    placed = await place_hold(sealed_up, "case-1", where={"session": session})
    assert (placed["sessions"], placed["erasing"]) == (1, [])
    for asked in ({}, {"dry_run": True}, {"turn": 1}):
        refused = await refuse_erasure(sealed_up, session, **asked)
        assert refused["code"] == "held"
        for said in ("case-1", "case 4711", placed["hold"]["by"], placed["hold"]["at"]):
            assert said in refused["detail"]
    await release_hold(sealed_up, "case-1")
    assert (await erase(sealed_up, session))["status"] == "erased"
    listed = await sealed_up.service.get_json("/v1/retention")
    assert listed["holds"] == []
    (over,) = [each for each in listed["released"] if each["name"] == "case-1"]
    assert over["released"]["reason"] == "case 4711 is closed"


async def test_hold_on_a_fork_refuses_what_would_reach_it_and_nothing_else(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    http = sealed_up.service.http
    session = await run_turns(sealed_up, provider, "one")
    end = (await sealed_up.service.get_json(f"/v1/sessions/{session}"))["sequence"]
    forked = await http.post(f"/v1/sessions/{session}/fork", json={"at": end})
    fork = forked.json()["session"]
    await add_turns(sealed_up, provider, session, "two")
    await place_hold(sealed_up, "fork", where={"session": fork})
    async with open_erasure_parts(sealed_up) as parts:
        await require_folded(parts, fork, 1)
    assert (await refuse_erasure(sealed_up, session))["code"] == "held"
    assert (await refuse_erasure(sealed_up, session, turn=1))["code"] == "held"
    assert (await erase(sealed_up, session, turn=2))["status"] == "erased"
    await release_hold(sealed_up, "fork")


async def test_user_erasure_names_what_is_held(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    http = sealed_up.service.http
    sessions = list[str]()
    for text in ("one", "two"):
        opened = await http.post("/v1/sessions", json={"blueprint": "uderia", "user": "eve"})
        sessions.append(opened.json()["session"])
        await add_turns(sealed_up, provider, sessions[-1], text)
    await place_hold(sealed_up, "eve", where={"user": "eve"})
    form = {"user": "eve", "reason": "request 4711"}
    skipped = (await http.post("/v1/erasures", json=form)).json()
    assert skipped["receipts"] == []
    assert [(each["session"], each["code"]) for each in skipped["skipped"]] == [
        (each, "held") for each in sessions
    ]
    await release_hold(sealed_up, "eve")
    await place_hold(sealed_up, "first", where={"session": sessions[0]})
    done = (await http.post("/v1/erasures", json=form)).json()
    assert [each["session"] for each in done["skipped"]] == sessions[:1]
    assert [each["status"] for each in done["receipts"]] == ["erased"]
    await release_hold(sealed_up, "first")


async def test_policy_erases_what_is_due_and_the_receipt_names_it(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    due = await run_turns(sealed_up, provider, "one")
    held = await run_turns(sealed_up, provider, "two")
    kept = await run_turns(sealed_up, provider, "three")
    other = await run_turns(sealed_up, provider, "four")
    for session in (due, held):
        await label(sealed_up, session, "chat")
    await label(sealed_up, kept, "chat", "invoice")
    await set_policy(sealed_up, "chats", where={"labels": ["chat"]}, erase_after="90d")
    await set_policy(
        sealed_up, "invoices", where={"labels": ["invoice"]}, keep_for="3650d", law=LAW
    )
    await place_hold(sealed_up, "two", where={"session": held})
    early = await run_round(sealed_up, timedelta(days=89))
    assert (early.erased, early.sessions) == (0, ())
    done = await run_round(sealed_up, timedelta(days=91))
    outcomes = {each.session: each.outcome for each in done.sessions}
    assert outcomes == {due: "erased", held: "held", kept: "retained"}
    (receipt,) = (await sealed_up.service.get_json(f"/v1/sessions/{due}/erasures"))["erasures"]
    assert (receipt["status"], receipt["by"]) == ("erased", "retention")
    assert receipt["reason"] == "retention policy chats: 90d after its last turn"
    assert await read_words(sealed_up, due) == {None}
    assert [await read_words(sealed_up, each) for each in (held, kept, other)] == [
        {"two"},
        {"three"},
        {"four"},
    ]
    again = await run_round(sealed_up, timedelta(days=91))
    assert {each.outcome for each in again.sessions} == {"held", "retained"}
    await release_hold(sealed_up, "two")
    assert (await run_round(sealed_up, timedelta(days=91))).erased == 1
    for name in ("chats", "invoices"):
        await remove_policy(sealed_up, name)


async def test_schedule_of_the_service_erases_by_itself(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    service = sealed_up.service
    session = await run_turns(sealed_up, provider, "one")
    await label(sealed_up, session, "brief")
    await set_policy(sealed_up, "brief", where={"labels": ["brief"]}, erase_after="1s")
    await service.wait_for_event(session, ContentErased)
    (receipt,) = (await service.get_json(f"/v1/sessions/{session}/erasures"))["erasures"]
    assert receipt["status"] == "erased"
    assert (receipt["by"], "policy brief" in receipt["reason"]) == ("retention", True)
    await remove_policy(sealed_up, "brief")


async def test_several_gateways_erase_a_session_once(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    session = await run_turns(sealed_up, provider, "one")
    await label(sealed_up, session, "race")
    await set_policy(sealed_up, "race", where={"labels": ["race"]}, erase_after="30d")
    await asyncio.gather(*(run_round(sealed_up, timedelta(days=31)) for _ in range(3)))
    events = await sealed_up.service.get_json(f"/v1/sessions/{session}/events", stored="true")
    types = [each["type"] for each in events["events"]]
    assert types.count("turnlog.erasure-begun.v1") == 1
    assert types.count("turnlog.content-erased.v1") == 1
    await remove_policy(sealed_up, "race")


async def test_erasure_of_a_policy_that_died_is_finished_by_another_gateway(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    session = await run_turns(sealed_up, provider, "one")
    await label(sealed_up, session, "died")
    await set_policy(sealed_up, "died", where={"labels": ["died"]}, erase_after="30d")
    async with open_erasure_parts(sealed_up, lambda: read_clock() + timedelta(days=31)) as parts:
        due = DueErasures(erasures=StoppedBetweenKeys(**parts), guard=parts["guard"])
        (found,) = (await due.run_round(TENANT, SCHEDULE)).sessions
        assert (found.session, found.outcome) == (session, "begun")
    await sealed_up.service.wait_for_event(session, ContentErased)
    (receipt,) = (await sealed_up.service.get_json(f"/v1/sessions/{session}/erasures"))["erasures"]
    assert (receipt["status"], receipt["by"]) == ("erased", "retention")
    assert "policy died" in receipt["reason"]
    await remove_policy(sealed_up, "died")


async def test_round_tries_so_many_erasures_and_the_next_one_the_others(
    sealed_up: TurnlogUp, provider: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_erasures, "ROUND_ERASURES", 2)
    sessions = [await sealed_up.service.open_session("assistant") for _ in range(3)]
    for session in sessions:
        await add_turns(sealed_up, provider, session, "one")
    await label(sealed_up, sessions[-1], "last")
    await set_policy(sealed_up, "many", where={"blueprint": "assistant"}, erase_after="30d")
    after = timedelta(days=31)
    async with open_erasure_parts(sealed_up, lambda: read_clock() + after) as parts:
        due = DueErasures(erasures=ErasureService(**parts), guard=parts["guard"])
        rounds = [await due.run_round(TENANT, SCHEDULE) for _ in range(3)]
        assert (await due.list_due(TENANT)).sessions == ()
    assert [(each.erased, each.due) for each in rounds] == [(2, 1), (1, 0), (0, 0)]
    await remove_policy(sealed_up, "many")


async def test_fork_that_was_used_since_keeps_its_origin_waiting(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    session = await run_turns(sealed_up, provider, "one")
    await label(sealed_up, session, "origin")
    end = (await sealed_up.service.get_json(f"/v1/sessions/{session}"))["sequence"]
    forked = await sealed_up.service.http.post(f"/v1/sessions/{session}/fork", json={"at": end})
    fork = forked.json()["session"]
    await label(sealed_up, fork, "slow")
    await set_policy(sealed_up, "origin", where={"labels": ["origin"]}, erase_after="30d")
    await set_policy(sealed_up, "slow", where={"labels": ["slow"]}, erase_after="60d")
    waiting = await run_round(sealed_up, timedelta(days=31))
    assert [(each.session, each.outcome) for each in waiting.sessions] == [(session, "waiting")]
    assert await read_words(sealed_up, fork) == {"one"}
    done = await run_round(sealed_up, timedelta(days=61))
    assert (session, "erased") in [(each.session, each.outcome) for each in done.sessions]
    assert await read_words(sealed_up, fork) == {None}
    for name in ("origin", "slow"):
        await remove_policy(sealed_up, name)


async def test_hold_that_is_placed_once_an_erasure_has_begun_keeps_the_keys(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    session = await run_turns(sealed_up, provider, "one")
    await label(sealed_up, session, "late")
    target = ErasureTarget(tenant=TENANT, session=session)
    async with open_erasure_parts(sealed_up) as parts:
        dying = StoppedBeforeParts(**parts)
        await place_hold(sealed_up, "before", where={"session": session})
        await release_hold(sealed_up, "before")
        begun = await dying.begin_erasure(CALLER, target, "request 4711")
        placed = await place_hold(sealed_up, "late", where={"labels": ["late"]})
        assert placed["erasing"] == [session]
        with pytest.raises(Unavailable):
            await dying.finish_erasure(TENANT, session, begun)
        await ErasureService(**parts).finish_open_erasures()
        events = await parts["command_handler"].load_events(TENANT, session)
        (asked,) = [each.event for each in events if isinstance(each.event, TurnSubmitted)]
        assert asked.text == PlainText(text="one")
        receipts = await sealed_up.service.get_json(f"/v1/sessions/{session}/erasures")
        assert receipts["erasures"][0]["status"] == "begun"
        await release_hold(sealed_up, "late")
        await ErasureService(**parts).finish_open_erasures()
    receipts = await sealed_up.service.get_json(f"/v1/sessions/{session}/erasures")
    assert receipts["erasures"][0]["status"] == "erased"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingErasures(ErasureService):
    """Carries nothing out, as where all of it is held."""

    waiting: list[str]
    """Sessions that it has looked at."""

    async def finish_erasure(self, tenant: str, session: str, begun: int) -> None:
        self.waiting.append(session)
        raise Unavailable("test", f"{tenant} {session} {begun} waits")


class NoGuard:
    """Lets everything be erased."""

    async def require_erasable(
        self, tenant: str, list_sessions: Callable[[], Awaitable[Sequence[str]]], /
    ) -> None:
        """Refuse nothing."""

    async def require_unheld(self, tenant: str, sessions: Sequence[str], /) -> None:
        """Refuse nothing."""


async def test_erasures_that_wait_keep_none_behind_them_waiting(
    sealed_up: TurnlogUp, provider: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure_service, "ROUND_ERASURES", 1)
    sessions = [await run_turns(sealed_up, provider, f"{SECRET} {each}") for each in range(3)]
    # The service itself, which looks for them too, has to leave them.
    await place_hold(sealed_up, "waits", all_sessions=True)
    async with open_erasure_parts(sealed_up) as parts:
        parts["guard"] = NoGuard()
        waiting = WaitingErasures(**parts, waiting=[])
        for session in sessions:
            target = ErasureTarget(tenant=TENANT, session=session)
            begun = await waiting.begin_erasure(CALLER, target, "request 4711")
            await require_folded(parts, session, begun)
        after = await waiting.finish_open_erasures()
        while after:
            after = await waiting.finish_open_erasures(after)
    await release_hold(sealed_up, "waits")
    assert waiting.waiting == sessions
