"""Why a call got its answer, over HTTP."""

from __future__ import annotations

import asyncio

import pytest

from tests.services.gateway.gateway_service import RunningGateway
from turnlog.projections.audit.explain.turn_explanation import TurnExplanation, explain_turn
from turnlog.services.audit.explain_service import EvidenceBySession, ExplainService


async def test_why_attributes_every_part_of_a_call_to_its_event(stand: RunningGateway) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "Who are you?", "A clerk.")
    turn = await stand.submit_and_answer(session, "And where?", "At desk one.")
    explanation = await stand.fetch_json(f"/v1/sessions/{session}/calls/2.1/why")
    assert (explanation["turn"], explanation["call"], explanation["status"]) == (
        2,
        "2.1",
        "completed",
    )
    assert (explanation["said"]["text"], explanation["reply"]["text"]) == (
        "And where?",
        "At desk one.",
    )
    assert explanation["asked"]["sequence"] == turn["sequence"]
    (input_part,) = [part for part in explanation["parts"] if part["part"]["layer"] == "input"]
    assert [by["event"] for by in input_part["by"]] == ["turn-submitted"]
    prompt = await stand.fetch_json(f"/v1/sessions/{session}/calls/2.1/prompt")
    assert [part["part"] for part in explanation["parts"]] == prompt["manifest"]["parts"]


async def test_why_reports_a_redaction_without_the_redacted_text(stand: RunningGateway) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "Hi", "Something private.")
    form = {"turn": 1, "reason": "names a person"}
    await stand.http.post(f"/v1/sessions/{session}/redactions", json=form)
    answer = await stand.http.get(f"/v1/sessions/{session}/calls/1.1/why")
    assert answer.json()["withheld"]["reason"] == "names a person"
    assert "private" not in answer.text


async def test_why_of_a_missing_call_returns_404(idle: RunningGateway) -> None:
    session = await idle.open_session()
    for call_id in ("1.1", "1", "%00", "9" * 5_000):
        answer = await idle.http.get(f"/v1/sessions/{session}/calls/{call_id}/why")
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown-call"), call_id


async def test_why_lists_excluded_turns_with_the_event_that_removed_them(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session()
    for text in ("Who?", "Where?", "When?"):
        await stand.submit_and_answer(session, text, f"{text} Indeed.")
    session_path = f"/v1/sessions/{session}"
    await stand.http.put(f"{session_path}/turns/1/exclusion")
    form = {"turn": 2, "reason": "names a person", "replacement": "(withheld)"}
    await stand.http.post(f"{session_path}/redactions", json=form)
    await stand.submit_and_answer(session, "Why?", "Because.")
    explanation = await stand.fetch_json(f"{session_path}/turns/4/why")
    runs = [each for each in explanation["parts"] if each["part"]["layer"] == "history"]
    removed = [exclusion for run in runs for exclusion in run["removed"]]
    exclusions = [
        (exclusion["first"], exclusion["last"], exclusion["rule"], exclusion["by"]["event"])
        for exclusion in removed
    ]
    assert exclusions == [(1, 1, "excluded", "turn-excluded"), (2, 2, "redacted", "reply-redacted")]
    assert (explanation["call"], explanation["turn"]) == ("4.1", 4)


async def test_why_of_a_missing_turn_returns_404(idle: RunningGateway) -> None:
    session = await idle.open_session()
    answer = await idle.http.get(f"/v1/sessions/{session}/turns/1/why")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown-turn")


@pytest.mark.promise("P14")
async def test_large_explanations_are_computed_one_at_a_time(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session()
    for text in ("Who?", "Where?"):
        await stand.submit_and_answer(session, text, "Here.")
    explanations = stand.dependencies.use_cases.explanations
    some = ExplainService(
        explanations.time_travel,
        stand.tenant,
        explanations.large_load_lock,
        unlocked_event_limit=1,
    )
    known = await some.load_evidence(session, [])

    def ask(knowing: EvidenceBySession) -> TurnExplanation:
        return explain_turn(knowing[session], 1)

    async with explanations.large_load_lock:
        explaining = asyncio.create_task(some.compute_answer({session: known}, ask))
        done, _ = await asyncio.wait([explaining], timeout=0.2)
        assert not done
        for path in ("calls/1.1/why", "turns/1/why", "calls/1.1/diff/2.1"):
            assert await stand.fetch_json(f"/v1/sessions/{session}/{path}"), "others go on"
    assert (await explaining).call == "1.1"
