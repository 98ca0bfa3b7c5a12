"""Cancel, close, redact and exclude: what each does and when it is refused."""

from __future__ import annotations

import asyncio
from io import StringIO
from typing import Any

import pytest
from pydantic import TypeAdapter
from rich.console import Console

from tests.services.gateway.gateway_service import RunningGateway
from turnlog.contract.turn_payloads import HistoryView
from turnlog.events.model.call_events import AttemptEnded
from turnlog.services.cli.views.session_view import render_conversation
from turnlog.services.worker.model.model_types import ModelFailure


async def test_cancelling_the_open_turn_opens_the_queued_one(idle: RunningGateway) -> None:
    session = await idle.open_session()
    await idle.submit_turn(session, "one")
    await idle.submit_turn(session, "two")
    path, key = f"/v1/sessions/{session}/cancel", {"Idempotency-Key": "once"}
    answer = await idle.http.post(path, headers=key)
    assert answer.status_code == 200
    assert answer.json() == {"session": session, "turn": 1, "sequence": 5}
    assert answer.headers["ETag"] == '"5"'
    await idle.submit_turn(session, "three")
    again = await idle.http.post(path, headers=key)
    assert again.json() == answer.json(), "turn 2, which it opened, is another turn"
    turns = (await idle.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert [(turn["status"], turn["reason"]) for turn in turns] == [
        ("cancelled", "cancelled"),
        ("open", None),
        ("queued", None),
    ]


async def test_queued_turn_is_cancelled_by_its_number(idle: RunningGateway) -> None:
    session = await idle.open_session()
    await idle.submit_turn(session, "one")
    await idle.submit_turn(session, "two")
    answer = await idle.http.post(f"/v1/sessions/{session}/cancel", json={"turn": 2})
    assert answer.status_code == 200
    assert (await idle.fetch_json(f"/v1/sessions/{session}"))["waiting"] == []


async def test_cancelling_ends_the_running_call(stand: RunningGateway) -> None:
    session = await stand.open_session()
    token_sent, never = asyncio.Event(), asyncio.Event()
    stand.model.scripts.append(["Half", token_sent.set, never])
    await stand.submit_turn(session)
    await asyncio.wait_for(token_sent.wait(), 30)
    assert (await stand.http.post(f"/v1/sessions/{session}/cancel")).status_code == 200
    turn = await stand.submit_and_answer(session, "and now?", "Now this.")
    assert turn["turn"] == 2
    turns = (await stand.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert [(turn["status"], turn["reply"]) for turn in turns] == [
        ("cancelled", None),
        ("completed", "Now this."),
    ]
    assert stand.model.closed_count == 2


async def read_stopped_turn(
    stand: RunningGateway, session: str, written: tuple[str, ...]
) -> dict[str, Any]:
    """Cancel a turn once its model has written these pieces, and return it as `/history` has it."""
    token_sent, never = asyncio.Event(), asyncio.Event()
    stand.model.scripts.append([*written, token_sent.set, never])
    await stand.submit_turn(session)
    await asyncio.wait_for(token_sent.wait(), 30)
    assert (await stand.http.post(f"/v1/sessions/{session}/cancel")).status_code == 200
    async for each in stand.backend.log.watch_session(stand.tenant, session, 1):
        if isinstance(each.event, AttemptEnded):
            break
    turns = (await stand.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    return dict(turns[-1])


@pytest.mark.parametrize(("written", "partial"), [(("Half ", "of it"), "Half of it"), ((), None)])
async def test_history_has_what_was_shown_of_a_stopped_reply(
    stand: RunningGateway, written: tuple[str, ...], partial: str | None
) -> None:
    turn = await read_stopped_turn(stand, await stand.open_session(), written)
    assert (turn["status"], turn["reply"], turn["partial"]) == ("cancelled", None, partial)


async def test_history_has_nothing_of_a_stopped_reply_that_the_guard_held_back(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session("reticent")
    turn = await read_stopped_turn(stand, session, ("Why not? ", "Write to trick"))
    assert (turn["status"], turn["partial"]) == ("cancelled", "Why not? ")


async def test_history_has_what_was_shown_of_a_reply_that_failed(stand: RunningGateway) -> None:
    session = await stand.open_session()
    stand.model.scripts.append(["Half", ModelFailure("unauthorised", "HTTP 401")])
    url = f"/v1/sessions/{session}/turns?wait=30"
    assert (await stand.http.post(url, json={"text": "Hi"})).json()["status"] == "failed"
    found = await stand.fetch_json(f"/v1/sessions/{session}/history")
    history = TypeAdapter(HistoryView).validate_python(found)
    assert [(turn.reply, turn.partial) for turn in history.turns] == [(None, "Half")]
    printed = StringIO()
    Console(file=printed, width=80).print(render_conversation(history))
    assert ["cut", "▌", "Half"] in [line.split() for line in printed.getvalue().splitlines()]


async def test_closing_cancels_the_open_turn_and_keeps_the_history_readable(
    idle: RunningGateway,
) -> None:
    session = await idle.open_session()
    await idle.submit_turn(session, "one")
    form = {"reason": "the case is settled"}
    answer = await idle.http.post(f"/v1/sessions/{session}/close", json=form)
    assert answer.status_code == 200
    again = await idle.http.post(f"/v1/sessions/{session}/close")
    assert again.json() == answer.json()
    session_view = await idle.fetch_json(f"/v1/sessions/{session}")
    assert (session_view["closed"], session_view["open"]) == (True, None)
    assert len((await idle.fetch_json(f"/v1/sessions/{session}/history"))["turns"]) == 1


@pytest.mark.parametrize(
    ("words", "reply"), [({}, "(Taken back.)"), ({"replacement": "Ask again."}, "Ask again.")]
)
async def test_a_redacted_reply_is_shown_as_its_replacement(
    stand: RunningGateway, words: dict[str, str], reply: str
) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "Hi", "Something private.")
    form = {"turn": 1, "reason": "names a person"} | words
    answer = await stand.http.post(f"/v1/sessions/{session}/redactions", json=form)
    assert answer.status_code == 200
    view = await stand.fetch_json(f"/v1/sessions/{session}/history")
    (turn,) = view["turns"]
    assert (turn["reply"], turn["redacted"], turn["reason"]) == (reply, True, "names a person")
    assert view["sequence"] == answer.json()["sequence"]
    window = await stand.fetch_json(f"/v1/sessions/{session}/window")
    assert [message["content"] for message in window["messages"]][1:] == ["Hi", reply]
    before = await stand.fetch_json(
        f"/v1/sessions/{session}/history", at=answer.json()["sequence"] - 1
    )
    assert before["turns"][0]["reply"] == reply, "readers do not get the text at any sequence"


async def test_excluded_turn_leaves_the_window_until_it_is_included_again(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "one", "first")
    await stand.submit_and_answer(session, "two", "second")
    url = f"/v1/sessions/{session}/turns/1/exclusion"
    out = await stand.http.put(url)
    assert out.status_code == 200
    assert (await stand.http.put(url)).json() == out.json()
    texts = [
        each["content"]
        for each in (await stand.fetch_json(f"/v1/sessions/{session}/window"))["messages"]
    ]
    assert texts[1:] == ["two", "second"]
    assert (await stand.fetch_json(f"/v1/sessions/{session}/history"))["turns"][0][
        "excluded"
    ] is True
    assert (await stand.http.delete(url)).status_code == 200
    texts = [
        each["content"]
        for each in (await stand.fetch_json(f"/v1/sessions/{session}/window"))["messages"]
    ]
    assert texts[1:] == ["one", "first", "two", "second"]


REFUSED: list[tuple[str, str, object, int, str]] = [
    ("POST", "cancel", {}, 409, "nothing-to-cancel"),
    ("POST", "cancel", {"turn": 1}, 409, "nothing-to-cancel"),
    ("POST", "cancel", {"turn": 9}, 404, "unknown-turn"),
    ("POST", "cancel", {"turn": 0}, 422, "invalid"),
    ("POST", "cancel", {"trun": 1}, 422, "invalid"),
    ("POST", "close", {"reason": ""}, 422, "invalid"),
    ("POST", "redactions", {"turn": 9, "reason": "r"}, 404, "unknown-turn"),
    ("POST", "redactions", {"turn": 1}, 422, "invalid"),
    ("POST", "redactions", {"turn": True, "reason": "r"}, 422, "invalid"),
    ("POST", "redactions", {"turn": "1", "reason": "r"}, 422, "invalid"),
    ("PUT", "turns/9/exclusion", None, 404, "unknown-turn"),
    ("PUT", "turns/0/exclusion", None, 422, "invalid"),
    ("PUT", "turns/one/exclusion", None, 422, "invalid"),
    ("DELETE", "turns/9/exclusion", None, 404, "unknown-turn"),
]


async def test_invalid_command_is_refused_and_changes_nothing(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "Hi", "Hello.")
    stand.model.scripts.append([asyncio.Event()])
    await stand.submit_turn(session, "never answered")
    await stand.http.post(f"/v1/sessions/{session}/cancel", json={"turn": 2})
    before = (await stand.fetch_json(f"/v1/sessions/{session}"))["turns"]
    for method, path, body, status, code in REFUSED:
        answer = await stand.http.request(method, f"/v1/sessions/{session}/{path}", json=body)
        assert (answer.status_code, answer.json().get("code")) == (status, code), (path, body)
    page = await stand.fetch_json(f"/v1/sessions/{session}/events", types="turn-cancelled")
    assert len(page["events"]) == 1
    assert (await stand.fetch_json(f"/v1/sessions/{session}"))["turns"] == before


async def test_redacting_a_reply_twice_is_a_conflict(stand: RunningGateway) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "Hi", "Hello.")
    url = f"/v1/sessions/{session}/redactions"
    await stand.http.post(url, json={"turn": 1, "reason": "r"})
    answer = await stand.http.post(url, json={"turn": 1, "reason": "r"})
    assert (answer.status_code, answer.json()["code"]) == (409, "already-redacted")


async def test_redacting_an_open_turn_is_a_conflict(idle: RunningGateway) -> None:
    session = await idle.open_session()
    await idle.submit_turn(session)
    form = {"turn": 1, "reason": "r"}
    answer = await idle.http.post(f"/v1/sessions/{session}/redactions", json=form)
    assert (answer.status_code, answer.json()["code"]) == (409, "turn-open")


async def test_session_of_another_tenant_returns_404(idle: RunningGateway) -> None:
    session = await idle.open_session()
    async with idle.start_another_gateway(tenant=f"{idle.tenant}-other") as other:
        answer = await other.http.get(f"/v1/sessions/{session}")
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown-session")
        assert (await other.fetch_json("/v1/sessions"))["sessions"] == []
        assert (await other.fetch_json("/v1/events"))["events"] == []
