"""A turn that is stopped or fails, and the turn after it: what the model gets, and the history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.services.gateway.gateway_service import LogBackend, RunningGateway, start_service
from turnlog.events.model.turn_events import TurnCancelled
from turnlog.events.tokens import Token
from turnlog.projections.session.commands import ClaimTurn
from turnlog.projections.session.rules.steps.outcome_rules import (
    BROKEN_REPLY_LINE,
    FAILED_TURN_LINE,
    STOPPED_REPLY_LINE,
    STOPPED_TURN_LINE,
)
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.worker.model.model_types import ModelFailure

DOCUMENT = """\
blueprint: NAME
version: 1
layers:
  persona: {text: "You are terse.", keep: always}
calls:
  reply: {messages: [{system: [persona]}, {history: recent}, {user: [input]}]}
history:
  recent: {}
policies: {POLICIES}
profiles:
  chat: {default: true, call: reply}
"""

BROKEN = ModelFailure("bad_request", "no such thing")

Dialogue = list[tuple[str, str]]


@pytest_asyncio.fixture
async def variants(
    backend: LogBackend, fresh_tenant: str, tmp_path: Path
) -> AsyncGenerator[RunningGateway]:
    """A gateway with a blueprint for each policy."""
    for policy in ("drop", "keep_question", "keep_partial"):
        folder = tmp_path / "blueprints" / policy.replace("_", "-")
        folder.mkdir(parents=True)
        document = DOCUMENT.replace("NAME", folder.name)
        written = document.replace("POLICIES", f"cancelled: {policy}, failed: {policy}")
        (folder / "blueprint.yaml").write_text(written)
    (tmp_path / "rows").mkdir()
    folders = (tmp_path / "blueprints",)
    async with start_service(
        backend, fresh_tenant, tmp_path / "rows", blueprints=folders
    ) as running:
        yield running


@asynccontextmanager
async def hold_reply(
    stand: RunningGateway, session: str, text: str, *pieces: str
) -> AsyncGenerator[int]:
    """Submit a turn, and go on once its model has written these pieces and waits."""
    held, written = asyncio.Event(), asyncio.Event()
    stand.model.scripts.append([*pieces, written.set, held])
    submitted = await stand.submit_turn(session, text)
    async with asyncio.timeout(30):
        await written.wait()
        await wait_for_text(stand, session, submitted["turn"], "".join(pieces))
    yield int(submitted["turn"])
    held.set()


async def wait_for_text(stand: RunningGateway, session: str, turn: int, text: str) -> None:
    """Wait until subscribers of a turn have been sent a text."""
    wake, shown, tokens = asyncio.Event(), "", stand.backend.tokens
    async with tokens.open_turn_watch(stand.tenant, session, turn, wake) as watch:
        while shown != text:
            wake.clear()
            while event := await watch.take_next():
                shown += event.text if isinstance(event, Token) else ""
            if shown != text:
                await wake.wait()


async def cancel_turn(stand: RunningGateway, session: str, **form: object) -> None:
    answer = await stand.http.post(f"/v1/sessions/{session}/cancel", json=form)
    assert answer.is_success, answer.text


async def fail_turn(stand: RunningGateway, session: str, text: str, *pieces: str) -> None:
    stand.model.scripts.append([*pieces, BROKEN])
    answer = await stand.http.post(f"/v1/sessions/{session}/turns?wait=30", json={"text": text})
    assert answer.json()["status"] == "failed"


async def ask_next(stand: RunningGateway, session: str, text: str = "Go on.") -> Dialogue:
    """Let the model answer another turn; return what it was sent, without the system's words."""
    await stand.submit_and_answer(session, text, "Very well.")
    messages = stand.model.requests[-1].messages
    turn = (await load_turns(stand, session))[-1]["turn"]
    prompt = await stand.fetch_json(f"/v1/sessions/{session}/calls/{turn}.1/prompt")
    sent = [(str(each["role"]), str(each["content"])) for each in messages]
    assert [(each["role"], each["content"]) for each in prompt["messages"]] == sent
    said = [each for each in sent if each[0] != "system"]
    roles = [role for role, _ in said]
    assert roles == ["user", "assistant"] * (len(said) // 2) + ["user"]
    return said


async def load_turns(stand: RunningGateway, session: str) -> list[dict[str, Any]]:
    return list((await stand.fetch_json(f"/v1/sessions/{session}/history"))["turns"])


async def test_stopped_reply_is_in_the_next_prompt_as_it_was_shown(stand: RunningGateway) -> None:
    session = await stand.open_session("assistant")
    async with hold_reply(stand, session, "Tell me a story.", "Once ", "upon "):
        await cancel_turn(stand, session)
    (stopped,) = await load_turns(stand, session)
    assert (stopped["status"], stopped["reply"]) == ("cancelled", None)
    assert (stopped["partial"], stopped["cut_line"]) == ("Once upon ", STOPPED_REPLY_LINE)
    assert await ask_next(stand, session) == [
        ("user", "Tell me a story."),
        ("assistant", f"Once upon \n\n{STOPPED_REPLY_LINE}"),
        ("user", "Go on."),
    ]
    assert (await stand.fetch_json(f"/v1/sessions/{session}/verify"))["verified"]


async def test_failed_turn_is_in_the_next_prompt_as_it_was_shown(stand: RunningGateway) -> None:
    session = await stand.open_session("assistant")
    await fail_turn(stand, session, "My name is Ada.")
    await fail_turn(stand, session, "Who am I?", "You are ")
    turns = await load_turns(stand, session)
    assert [(each["partial"], each["cut_line"]) for each in turns] == [
        (None, FAILED_TURN_LINE),
        ("You are ", BROKEN_REPLY_LINE),
    ]
    assert await ask_next(stand, session, "Again?") == [
        ("user", "My name is Ada."),
        ("assistant", FAILED_TURN_LINE),
        ("user", "Who am I?"),
        ("assistant", f"You are \n\n{BROKEN_REPLY_LINE}"),
        ("user", "Again?"),
    ]


KEPT: dict[str, list[Dialogue]] = {
    "drop": [[], []],
    "keep-question": [
        [("user", "Tell me."), ("assistant", STOPPED_TURN_LINE)],
        [("user", "Who?"), ("assistant", FAILED_TURN_LINE)],
    ],
    "keep-partial": [
        [("user", "Tell me."), ("assistant", f"So it\n\n{STOPPED_REPLY_LINE}")],
        [("user", "Who?"), ("assistant", f"You\n\n{BROKEN_REPLY_LINE}")],
    ],
}


@pytest.mark.parametrize("blueprint", KEPT)
async def test_policy_decides_what_the_next_prompt_has_of_a_cut_turn(
    variants: RunningGateway, blueprint: str
) -> None:
    session = await variants.open_session(blueprint)
    async with hold_reply(variants, session, "Tell me.", "So it"):
        await cancel_turn(variants, session)
    await fail_turn(variants, session, "Who?", "You")
    stopped, failed = KEPT[blueprint]
    assert await ask_next(variants, session) == [*stopped, *failed, ("user", "Go on.")]
    turns = await load_turns(variants, session)
    assert [each["partial"] for each in turns] == ["So it", "You", None]
    assert [bool(each["cut_line"]) for each in turns] == [bool(stopped), bool(failed), False]


async def test_turn_that_interrupts_another_continues_from_what_was_shown(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session("interrupting")
    async with hold_reply(stand, session, "Count.", "One, two"):
        said = await ask_next(stand, session, "In French.")
    assert said == [
        ("user", "Count."),
        ("assistant", f"One, two\n\n{STOPPED_REPLY_LINE}"),
        ("user", "In French."),
    ]


async def test_turn_that_is_withdrawn_before_it_began_is_in_no_prompt(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session("assistant")
    async with hold_reply(stand, session, "Tell me.", "So"):
        queued = await stand.submit_turn(session, "Never mind.")
        await cancel_turn(stand, session, turn=queued["turn"])
        await cancel_turn(stand, session)
    said = await ask_next(stand, session)
    assert "Never mind." not in [text for _, text in said]


async def test_second_cancel_of_a_turn_changes_nothing(stand: RunningGateway) -> None:
    session = await stand.open_session("assistant")
    async with hold_reply(stand, session, "Tell me.", "So"):
        await cancel_turn(stand, session)
        again = await stand.http.post(f"/v1/sessions/{session}/cancel", json={"turn": 1})
    assert again.json()["code"] == "nothing-to-cancel"
    assert (await load_turns(stand, session))[0]["partial"] == "So"


async def test_fork_of_a_closed_session_continues_from_what_was_shown(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session("assistant")
    async with hold_reply(stand, session, "Tell me.", "So"):
        closed = await stand.http.post(f"/v1/sessions/{session}/close", json={})
        assert closed.is_success
    events = await stand.parts.command_handler.load_events(stand.tenant, session)
    (at,) = [each.sequence for each in events if isinstance(each.event, TurnCancelled)]
    forked = await stand.http.post(f"/v1/sessions/{session}/fork", json={"at": at})
    assert forked.is_success, forked.text
    said = await ask_next(stand, forked.json()["session"])
    assert said[1] == ("assistant", f"So\n\n{STOPPED_REPLY_LINE}")


async def test_cancel_without_a_worker_keeps_what_a_dead_one_had_shown(
    idle: RunningGateway,
) -> None:
    session = await idle.open_session("assistant")
    await idle.submit_turn(session, "Tell me.")
    handler, by = idle.parts.command_handler, CommandMetadata("worker", None)
    policies = (await load_blueprint(idle, session)).policies
    await handler.handle(idle.tenant, session, ClaimTurn(1, "w9", policies), by)
    for offset, text in ((0, "So "), (3, "it "), (9, "lost")):
        event = Token(call="1.1", attempt=1, offset=offset, text=text)
        assert await idle.backend.tokens.publish_and_confirm(idle.tenant, session, 1, event)
    await cancel_turn(idle, session)
    (stopped,) = await load_turns(idle, session)
    assert (stopped["partial"], stopped["cut_line"]) == ("So it ", STOPPED_REPLY_LINE)


async def load_blueprint(stand: RunningGateway, session: str) -> Any:  # noqa: ANN401
    state = await stand.parts.command_handler.require_state(stand.tenant, session)
    return (await stand.parts.blueprints.load_material(state)).blueprint


@pytest.mark.slow("twenty turns are stopped, each with another right after it")
async def test_turn_right_after_a_cancel_has_a_prompt_that_never_changes_later(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session("assistant")
    for number in range(20):
        held = asyncio.Event()
        stand.model.scripts = [["So ", "it ", held, "goes."]]
        await stand.submit_turn(session, f"Tell me {number}.")
        await cancel_turn(stand, session)
        stand.model.scripts = []
        await ask_next(stand, session, f"Go on {number}.")
        held.set()
    assert (await stand.fetch_json(f"/v1/sessions/{session}/verify"))["verified"]


async def test_cut_reply_can_be_withheld_and_its_turn_excluded(stand: RunningGateway) -> None:
    session = await stand.open_session("assistant")
    async with hold_reply(stand, session, "Tell me.", "A secret"):
        await cancel_turn(stand, session)
    form = {"turn": 1, "reason": "a secret", "replacement": "(Withheld.)"}
    withheld = await stand.http.post(f"/v1/sessions/{session}/redactions", json=form)
    assert withheld.is_success, withheld.text
    said = await ask_next(stand, session)
    assert said[:2] == [("user", "Tell me."), ("assistant", "(Withheld.)")]
    turn = (await load_turns(stand, session))[0]
    shown = (turn["status"], turn["reply"], turn["partial"], turn["cut_line"])
    assert shown == ("cancelled", "(Withheld.)", None, None)
    events = await stand.http.get(f"/v1/sessions/{session}/events")
    assert "A secret" not in events.text
    excluded = await stand.http.put(f"/v1/sessions/{session}/turns/1/exclusion")
    assert excluded.is_success, excluded.text
    assert (await ask_next(stand, session))[0] == ("user", "Go on.")


async def test_turn_that_would_fail_every_later_prompt_is_left_out(stand: RunningGateway) -> None:
    session = await stand.open_session("assistant")
    stand.model.scripts = [[ModelFailure("content_filtered", "no")]]
    url = f"/v1/sessions/{session}/turns?wait=30"
    failed = await stand.http.post(url, json={"text": "Something foul."})
    assert failed.json()["reason"] == "content_filtered"
    assert await ask_next(stand, session) == [("user", "Go on.")]
