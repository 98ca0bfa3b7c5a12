"""P3: the game master takes `inputText`, the turn's text in other words, beside the text."""

from __future__ import annotations

import pytest

from tests.segment_budgets.game_service import ENTRY, GameService

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEECH = "I tell her what I saw from the boat. " * 60

SUMMARY = "The player reports what was seen from the boat."


async def test_p3_prompt_shows_the_input_text_and_the_record_keeps_the_players_words(
    coast: GameService,
) -> None:
    session = await coast.open_session()
    shown = await coast.play_turn(session, SPEECH, inputText=SUMMARY)
    assert shown["prompt"] == coast.sent
    assert f"=== INPUT_BEGIN ===\n{SUMMARY}\n=== INPUT_END ===" in shown["prompt"]
    assert SPEECH[:40] not in shown["prompt"]
    history = await coast.service.get_json(f"/v1/sessions/{session}/history")
    assert [turn["text"] for turn in history["turns"]] == [SPEECH]
    prompt = await coast.service.get_json(f"/v1/sessions/{session}/calls/1.1/prompt")
    (part,) = [each for each in prompt["manifest"]["parts"] if each["layer"] == "input"]
    assert part["source"]["field"] == "inputs.input_text"
    assert (part["component"], part["treatment"]) == ("query", "kept")
    report = await coast.service.get_json(f"/v1/sessions/{session}/verify")
    assert report["verified"], report

    plain = await coast.play_turn(session, "I knock.")
    assert "=== INPUT_BEGIN ===\nI knock.\n=== INPUT_END ===" in plain["prompt"]


async def test_p3_input_text_is_trimmed_like_the_text_of_a_turn(coast: GameService) -> None:
    session = await coast.open_session()
    shown = await coast.play_turn(session, "I talk.", inputText=SPEECH, tokenBudget=180)
    trimmed = shown["meta"]["truncated"]["inputTrimmed"]
    assert trimmed["fromChars"] == len(SPEECH)
    assert trimmed["toChars"] < len(SPEECH)


async def test_p3_assembling_without_a_session_shows_the_input_text(coast: GameService) -> None:
    form = {"blueprint": "game-master", "attributes": {**ENTRY}, "text": "I talk."}
    answer = await coast.http.post("/v1/assemble", json=form | {"inputs": {"inputText": SUMMARY}})
    assert answer.status_code == 200, answer.text
    assert SUMMARY in answer.json()["prompt"]
    assert "I talk." not in answer.json()["prompt"]
