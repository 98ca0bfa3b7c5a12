"""Previews: the prompt of a turn that was not submitted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.services.gateway.gateway_service import MODEL, RunningGateway
from tests.support.sessions.game_master_turns import STORY_ATTRIBUTES


async def preview_window(stand: RunningGateway, session: str, **form: object) -> dict[str, Any]:
    """Preview a window and require that the request is accepted."""
    answer = await stand.http.post(f"/v1/sessions/{session}/window", json=form)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def open_story(stand: RunningGateway) -> str:
    """Open a session of the shipped game master, with the segments that it cannot do without."""
    rows = [
        {"scope": "core", "content": "Tell the story."},
        {"scope": "ruleset", "ref": "r.1", "content": "Roll fairly."},
    ]
    answer = await stand.http.post("/v1/segments/import", json={"segments": rows})
    assert answer.status_code in {200, 201}, answer.text
    return await stand.open_session("game-master", attributes=STORY_ATTRIBUTES)


async def test_previewed_prompt_equals_the_prompt_sent_later(stand: RunningGateway) -> None:
    session = await stand.open_session()
    for text in ("One", "Two", "Three"):
        window = await preview_window(stand, session, text=text)
        turn = (await stand.submit_and_answer(session, text, f"To {text}."))["turn"]
        prompt = await stand.fetch_json(f"/v1/sessions/{session}/calls/{turn}.1/prompt")
        assert window["messages"] == prompt["messages"]
        assert window["manifest"]["digest"] == prompt["digest"]
        assert window["manifest"].get("prefix") == prompt["manifest"].get("prefix")


async def test_preview_writes_no_events_and_calls_no_model(stand: RunningGateway) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "Hi", "Hello.")
    stored, request_count = await stand.count_stored_events(), len(stand.model.requests)
    head = (await stand.fetch_json(f"/v1/sessions/{session}"))["sequence"]
    window = await preview_window(stand, session, text="What if?")
    assert window["sequence"] == head
    assert (await stand.count_stored_events(), len(stand.model.requests)) == (stored, request_count)
    assert [
        turn["text"]
        for turn in (await stand.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    ] == ["Hi"]
    assert (await preview_window(stand, session, text="Or this?"))["messages"][-1][
        "content"
    ] == "Or this?"


async def test_preview_leaves_out_the_open_turn(idle: RunningGateway) -> None:
    session = await idle.open_session()
    await idle.submit_turn(session, "Never answered")
    window = await preview_window(idle, session, text="Tried")
    assert [each["content"] for each in window["messages"]][1:] == ["Tried"]


async def test_preview_with_a_smaller_budget_drops_the_oldest_turns(stand: RunningGateway) -> None:
    session = await stand.open_session("assistant")
    await stand.submit_and_answer(session, "A" * 400, "B" * 400)
    full = await preview_window(stand, session, text="And now?")
    less = await preview_window(
        stand, session, text="And now?", budget=full["manifest"]["tokens"] - 1
    )
    assert len(less["messages"]) == len(full["messages"]) - 2
    assert [step["step"] for step in less["manifest"]["steps"]] == ["drop_oldest_pairs"]
    answer = await stand.http.post(
        f"/v1/sessions/{session}/window", json={"text": "And now?", "budget": 3}
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "over-budget")
    assert "(always kept)" in answer.json()["detail"]


async def test_preview_with_another_model_uses_its_price_for_the_prompt_only(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session()
    cheap = await preview_window(stand, session, text="Hi")
    assert (cheap["model"], cheap["cost"]["price"]) == (MODEL, "fallback")
    expensive = await preview_window(stand, session, text="Hi" * 2_000, model="openai/gpt-4o")
    tokens = expensive["manifest"]["tokens"]
    # Two and a half dollars a million tokens sent, by the table that litellm ships
    assert abs(expensive["cost"]["micro_dollars"] - 2.5 * tokens) <= 1
    assert (expensive["model"], expensive["cost"]["price"]) == ("openai/gpt-4o", "exact")


async def test_preview_uses_text_and_inputs_of_its_request_only(
    idle: RunningGateway,
) -> None:
    first = await open_story(idle)
    second = await open_story(idle)
    await idle.submit_turn(first, "Opening move", inputs={"player": "Mara", "rng": "die three"})
    # The next event of the stream after the head of the first session belongs to the second one.
    foreign = {"game_state": "Another room.", "player": "Ansel", "rng": "die six"}
    await idle.submit_turn(second, "I flee.", inputs=foreign)
    window = await preview_window(
        idle, first, text="I open the door.", inputs={"game_state": "The door is shut."}
    )
    (message,) = window["messages"]
    assert "The door is shut." in message["content"]
    assert "I open the door." in message["content"]
    for other in (*foreign.values(), "I flee.", "Mara", "Opening move"):
        assert other not in message["content"]
    named = {part["layer"] for part in window["manifest"]["parts"] if part["tokens"]}
    assert named & {"game_state", "player", "rng"} == {"game_state"}


async def test_preview_with_inputs_equals_the_prompt_sent_later(stand: RunningGateway) -> None:
    session = await open_story(stand)
    form = {"text": "I knock.", "inputs": {"game_state": "A door.", "player": "Mara"}}
    window = await preview_window(stand, session, **form)
    stand.model.scripts.append(["Nobody answers."])
    url = f"/v1/sessions/{session}/turns?wait=30"
    turn = (await stand.http.post(url, json=form)).json()["turn"]
    prompt = await stand.fetch_json(f"/v1/sessions/{session}/calls/{turn}.1/prompt")
    assert window["messages"] == prompt["messages"]
    assert window["manifest"]["parts"] == prompt["manifest"]["parts"]


async def test_preview_includes_older_turns_when_a_long_turn_is_excluded(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session("assistant")
    await stand.submit_and_answer(session, "First", "One.")
    long = (await stand.submit_and_answer(session, "Second", "x" * 40_000))["turn"]
    url = f"/v1/sessions/{session}/turns/{long}/exclusion"
    assert (await stand.http.put(url)).status_code == 200
    # No call was made by this provider, so that its prompt files are not pinned either.
    window = await preview_window(stand, session, text="Tried", model="openai/gpt-4o")
    system, *others = (message["content"] for message in window["messages"])
    assert "English" in system
    assert others == ["First", "One.", "Tried"]


@pytest.mark.parametrize(
    ("form", "code", "field"),
    [
        ({"text": "Hi", "budget": 0}, "invalid", "budget"),
        ({"text": "Hi", "budget": -1}, "invalid", "budget"),
        ({"text": "Hi", "call": "repply"}, "unknown-kind", "call"),
        ({"text": "Hi", "inputs": {"x": 1}}, "unknown-value", "inputs.x"),
        ({"text": "Hi", "api_base": "http://x"}, "invalid", "api_base"),
        ({}, "text-missing", "text"),
    ],
)
async def test_invalid_preview_request_is_refused_with_code_and_field(
    idle: RunningGateway, form: dict[str, object], code: str, field: str
) -> None:
    session = await idle.open_session()
    answer = await idle.http.post(f"/v1/sessions/{session}/window", json=form)
    assert (answer.status_code, answer.json()["code"]) == (422, code), answer.text
    assert (answer.json().get("field") or answer.json()["faults"][0]["field"]) == field
