"""The window and the session at an earlier sequence."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.services.gateway.stand import Stand

pytestmark = pytest.mark.parametrize("log_url", ["memory"], indirect=True)


async def head(stand: Stand, session: str) -> int:
    return int((await stand.get(f"/v1/sessions/{session}"))["sequence"])


async def words(stand: Stand, session: str, **query: object) -> list[str]:
    window = await stand.get(f"/v1/sessions/{session}/window", **query)
    return [said["content"] for said in window["messages"]]


async def test_what_was_excluded_withheld_or_said_later_is_seen_as_it_was(stand: Stand) -> None:
    session = await stand.open()
    await stand.say(session, "One", "First.")
    await stand.say(session, "Two", "Second.")
    before = await head(stand, session)
    await stand.http.put(f"/v1/sessions/{session}/turns/1/exclusion")
    await stand.http.post(
        f"/v1/sessions/{session}/redactions", json={"turn": 2, "reason": "not ours"}
    )
    after = await head(stand, session)
    await stand.say(session, "Three", "Third.")
    assert (await words(stand, session, at=before))[1:] == ["One", "First.", "Two", "Second."]
    assert (await words(stand, session, at=before + 1))[1:] == ["Two", "Second."]
    assert (await words(stand, session, at=after))[1:] == ["Two", "(Taken back.)"]


async def test_the_clock_of_a_window_of_the_past_is_that_of_then(stand: Stand) -> None:
    session = await stand.open("keeper")
    await stand.say(session, "One", "First.")
    at = await head(stand, session)
    last = (await stand.desk.command_handler.load_events(stand.tenant, session))[-1]
    window = await stand.get(f"/v1/sessions/{session}/window", at=at)
    assert window["manifest"]["at"] == last.envelope.time
    assert [said["content"] for said in window["messages"]] == ["One", "First."]
    said_at = datetime.fromisoformat(last.envelope.time)
    in_time, too_late = said_at + timedelta(minutes=59), said_at + timedelta(minutes=61)
    for query in ({"at": at}, {}):
        assert await words(stand, session, clock=in_time.isoformat(), **query) == ["One", "First."]
        assert await words(stand, session, clock=too_late.isoformat(), **query) == []


async def test_the_library_of_a_window_of_the_past_is_that_of_then(stand: Stand) -> None:
    rule = {"scope": "core", "content": "Be brief."}
    await stand.http.post("/v1/segments", json=rule)
    session = await stand.open("keeper")
    await stand.say(session, "One", "First.")
    at = await head(stand, session)
    await stand.http.patch("/v1/segments/1", json={"content": "Be long."})
    assert (await words(stand, session, at=at))[0] == "Be brief."
    assert (await words(stand, session))[0] == "Be long."


async def test_a_session_at_a_sequence_stands_where_it_stood(stand: Stand) -> None:
    session = await stand.open("trickster", attributes={"task": "share-before-reading"})
    opened = await head(stand, session)
    await stand.http.post(f"/v1/sessions/{session}/choices", json={"choice": "share"})
    chosen = await head(stand, session)
    stand.model.scripts.append(["Look!"])
    await stand.http.post(f"/v1/sessions/{session}/turns?wait=30", json={"text": "Why?"})
    then = await stand.get(f"/v1/sessions/{session}", at=opened)
    assert (then["phase"], then["choices"], then["turns"]) == ("choose", [], 0)
    then = await stand.get(f"/v1/sessions/{session}", at=chosen)
    assert (then["phase"], then["turns"], then["sequence"]) == ("talk", 0, chosen)
    assert [each["choice"] for each in then["choices"]] == ["share"]
    assert "Look!" not in await words(stand, session, at=chosen)


async def test_before_the_first_call_the_files_are_those_that_it_pinned_then(stand: Stand) -> None:
    session = await stand.open()
    await stand.say(session, "One", "First.")
    prompt = await stand.get(f"/v1/sessions/{session}/calls/1.1/prompt")
    assert await words(stand, session, at=2) == [said["content"] for said in prompt["messages"]]
    assert (await stand.get(f"/v1/sessions/{session}/window", at=2))["manifest"]["parts"][0][
        "source"
    ] == prompt["manifest"]["parts"][0]["source"]


@pytest.mark.parametrize("clock", ["yesterday", "2026-01-01T00:00:00", "9999-12-31T23:59:59-14:00"])
async def test_a_moment_that_is_none_is_refused(stand: Stand, clock: str) -> None:
    session = await stand.open()
    answer = await stand.http.get(f"/v1/sessions/{session}/window", params={"clock": clock})
    assert (answer.status_code, answer.json()["field"]) == (422, "clock")
