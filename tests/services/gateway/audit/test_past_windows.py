"""The window and the session at an earlier sequence."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.services.gateway.gateway_service import RunningGateway

pytestmark = pytest.mark.parametrize("log_url", ["memory"], indirect=True)


async def fetch_sequence(stand: RunningGateway, session: str) -> int:
    return int((await stand.fetch_json(f"/v1/sessions/{session}"))["sequence"])


async def fetch_window_texts(stand: RunningGateway, session: str, **query: object) -> list[str]:
    window = await stand.fetch_json(f"/v1/sessions/{session}/window", **query)
    return [message["content"] for message in window["messages"]]


async def test_past_window_ignores_later_exclusions_redactions_and_turns(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "One", "First.")
    await stand.submit_and_answer(session, "Two", "Second.")
    before = await fetch_sequence(stand, session)
    await stand.http.put(f"/v1/sessions/{session}/turns/1/exclusion")
    await stand.http.post(
        f"/v1/sessions/{session}/redactions", json={"turn": 2, "reason": "not ours"}
    )
    after = await fetch_sequence(stand, session)
    await stand.submit_and_answer(session, "Three", "Third.")
    assert (await fetch_window_texts(stand, session, at=before))[1:] == [
        "One",
        "First.",
        "Two",
        "Second.",
    ]
    assert (await fetch_window_texts(stand, session, at=before + 1))[1:] == ["Two", "Second."]
    assert (await fetch_window_texts(stand, session, at=after))[1:] == ["Two", "(Taken back.)"]


async def test_past_window_uses_the_time_of_its_sequence_as_clock(stand: RunningGateway) -> None:
    session = await stand.open_session("keeper")
    await stand.submit_and_answer(session, "One", "First.")
    at = await fetch_sequence(stand, session)
    last = (await stand.parts.command_handler.load_events(stand.tenant, session))[-1]
    window = await stand.fetch_json(f"/v1/sessions/{session}/window", at=at)
    assert window["manifest"]["at"] == last.envelope.time
    assert [message["content"] for message in window["messages"]] == ["One", "First."]
    said_at = datetime.fromisoformat(last.envelope.time)
    in_time, too_late = said_at + timedelta(minutes=59), said_at + timedelta(minutes=61)
    for query in ({"at": at}, {}):
        assert await fetch_window_texts(stand, session, clock=in_time.isoformat(), **query) == [
            "One",
            "First.",
        ]
        assert await fetch_window_texts(stand, session, clock=too_late.isoformat(), **query) == []


async def test_past_window_uses_the_segment_versions_of_its_time(stand: RunningGateway) -> None:
    rule = {"scope": "core", "content": "Be brief."}
    await stand.http.post("/v1/segments", json=rule)
    session = await stand.open_session("keeper")
    await stand.submit_and_answer(session, "One", "First.")
    at = await fetch_sequence(stand, session)
    await stand.http.patch("/v1/segments/1", json={"content": "Be long."})
    assert (await fetch_window_texts(stand, session, at=at))[0] == "Be brief."
    assert (await fetch_window_texts(stand, session))[0] == "Be long."


async def test_session_at_a_sequence_has_its_earlier_phase_and_choices(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session("trickster", attributes={"task": "share-before-reading"})
    opened = await fetch_sequence(stand, session)
    await stand.http.post(f"/v1/sessions/{session}/choices", json={"choice": "share"})
    chosen = await fetch_sequence(stand, session)
    stand.model.scripts.append(["Look!"])
    await stand.http.post(f"/v1/sessions/{session}/turns?wait=30", json={"text": "Why?"})
    then = await stand.fetch_json(f"/v1/sessions/{session}", at=opened)
    assert (then["phase"], then["choices"], then["turns"]) == ("choose", [], 0)
    then = await stand.fetch_json(f"/v1/sessions/{session}", at=chosen)
    assert (then["phase"], then["turns"], then["sequence"]) == ("talk", 0, chosen)
    assert [each["choice"] for each in then["choices"]] == ["share"]
    assert "Look!" not in await fetch_window_texts(stand, session, at=chosen)


async def test_window_before_the_first_call_uses_the_files_that_call_pinned(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "One", "First.")
    prompt = await stand.fetch_json(f"/v1/sessions/{session}/calls/1.1/prompt")
    assert await fetch_window_texts(stand, session, at=2) == [
        message["content"] for message in prompt["messages"]
    ]
    assert (await stand.fetch_json(f"/v1/sessions/{session}/window", at=2))["manifest"]["parts"][0][
        "source"
    ] == prompt["manifest"]["parts"][0]["source"]


@pytest.mark.parametrize("clock", ["yesterday", "2026-01-01T00:00:00", "9999-12-31T23:59:59-14:00"])
async def test_invalid_clock_of_a_window_is_refused(stand: RunningGateway, clock: str) -> None:
    session = await stand.open_session()
    answer = await stand.http.get(f"/v1/sessions/{session}/window", params={"clock": clock})
    assert (answer.status_code, answer.json()["field"]) == (422, "clock")
