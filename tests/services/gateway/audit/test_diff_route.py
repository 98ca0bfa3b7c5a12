"""The diff of two calls, over HTTP."""

from __future__ import annotations

from typing import Any

from tests.services.gateway.gateway_service import RunningGateway


def list_reasons(change: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Return each reason with the names of its events."""
    return [(each["what"], [by["event"] for by in each["by"]]) for each in change["because"]]


async def test_every_change_between_two_calls_is_attributed_to_its_event(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "Who are you?", "A clerk.")
    await stand.submit_and_answer(session, "And where?", "At desk one.")
    session_path = f"/v1/sessions/{session}"
    await stand.http.put(f"{session_path}/turns/1/exclusion")
    await stand.submit_and_answer(session, "Until when, please?", "Until five.")
    found = await stand.fetch_json(f"{session_path}/calls/2.1/diff/3.1")
    changes = [
        (each["what"], each["layer"], each["first"], list_reasons(each))
        for each in found["changes"]
    ]
    assert changes == [
        ("removed", "history", 1, [("excluded", ["turn-excluded"])]),
        ("added", "history", 2, [("answered", ["turn-completed"])]),
        ("changed", "input", None, [("said", ["turn-submitted"])]),
    ]
    sizes = [
        (await stand.fetch_json(f"{session_path}/calls/{call}/prompt"))["manifest"]
        for call in ("2.1", "3.1")
    ]
    assert found["tokens"] == sizes[1]["tokens"] - sizes[0]["tokens"]
    assert sum(each["after"] - each["before"] for each in found["components"]) == found["tokens"]
    assert found["prefix"]["ended_by"] == "history"
    assert found["micro_dollars"] == 0
    assert "desk one" not in str(found)


async def test_diff_of_a_call_with_itself_is_empty(stand: RunningGateway) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "Who are you?", "A clerk.")
    found = await stand.fetch_json(f"/v1/sessions/{session}/calls/1.1/diff/1.1")
    assert (found["same"], found["changes"], found["tokens"]) == (True, [], 0)


async def test_diff_across_sessions_attributes_changes_to_their_opening_attributes(
    stand: RunningGateway,
) -> None:
    one, other = [
        await stand.open_session("assistant", attributes={"instructions": f"Prefer {each}."})
        for each in ("miles", "kilometres")
    ]
    for session in (one, other):
        await stand.submit_and_answer(session, "How far is it?", "Ten.")
    found = await stand.fetch_json(f"/v1/sessions/{one}/calls/1.1/diff/1.1", other=other)
    (change,) = found["changes"]
    assert (change["what"], change["layer"]) == ("changed", "instructions")
    (reason,) = change["because"]
    assert reason["what"] == "attribute"
    assert {by["session"] for by in reason["by"]} == {one, other}


async def test_diff_with_a_missing_call_or_session_returns_404(stand: RunningGateway) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "Who are you?", "A clerk.")
    for path, query, code in (
        ("calls/1.1/diff/9.1", {}, "unknown-call"),
        ("calls/9.1/diff/1.1", {}, "unknown-call"),
        ("calls/1.1/diff/1.1", {"other": "nobody"}, "unknown-session"),
    ):
        answer = await stand.http.get(f"/v1/sessions/{session}/{path}", params=query)
        assert (answer.status_code, answer.json()["code"]) == (404, code), path
