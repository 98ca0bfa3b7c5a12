"""Titles, labels and metadata of sessions, and metadata of turns, over HTTP."""

from __future__ import annotations

from typing import Any, Final

import httpx
import pytest

from tests.services.gateway.gateway_service import RunningGateway
from turnlog.projections.session.session_description import MAX_METADATA_BYTES

TITLE: Final = "Trip to Holm"

DESCRIBED: Final[dict[str, Any]] = {
    "title": TITLE,
    "labels": ["travel", "Büro Nord"],
    "metadata": {"thread": "t-17", "owner": {"id": 7, "team": "north"}},
}


async def describe_session(
    stand: RunningGateway, session: str, headers: dict[str, str] | None = None, **form: object
) -> httpx.Response:
    return await stand.http.patch(f"/v1/sessions/{session}", json=form, headers=headers)


async def fetch_description(stand: RunningGateway, session: str, **query: object) -> dict[str, Any]:
    view = await stand.fetch_json(f"/v1/sessions/{session}", **query)
    return {name: view[name] for name in DESCRIBED}


async def list_events(stand: RunningGateway, session: str) -> list[dict[str, Any]]:
    page = await stand.fetch_json(f"/v1/sessions/{session}/events")
    return [each for each in page["events"] if each["type"] == "turnlog.session-described.v1"]


async def list_sessions(stand: RunningGateway, seen: str, **query: str) -> list[dict[str, Any]]:
    page = await stand.fetch_json("/v1/sessions", min_sequence=seen, **query)
    return list(page["sessions"])


async def test_session_keeps_what_it_was_opened_with(stand: RunningGateway) -> None:
    session = await stand.open_session("assistant", **DESCRIBED)
    assert await fetch_description(stand, session) == DESCRIBED
    await stand.submit_and_answer(session, "Where is Holm?", "North.")
    [row] = await list_sessions(stand, f"{session}:2", blueprint="assistant")
    assert (row["title"], row["labels"]) == (TITLE, DESCRIBED["labels"])
    assert "metadata" not in row


async def test_session_without_a_title_is_listed_by_its_first_turn(stand: RunningGateway) -> None:
    session = await stand.open_session("assistant")
    await stand.submit_and_answer(session, "Where is Holm?", "North.")
    assert await fetch_description(stand, session) == {"title": None, "labels": [], "metadata": {}}
    done = await describe_session(stand, session, title=TITLE)
    [row] = await list_sessions(stand, f"{session}:{done.json()['sequence']}")
    assert row["title"] == TITLE
    removed = await describe_session(stand, session, title=None)
    [row] = await list_sessions(stand, f"{session}:{removed.json()['sequence']}")
    assert row["title"] == "Where is Holm?"


@pytest.mark.parametrize(
    ("change", "after"),
    [
        ({"title": "Holm by boat"}, {"title": "Holm by boat"}),
        ({"title": None}, {"title": None}),
        ({"title": ""}, {"title": None}),
        ({"labels": ["b", "a", "b"]}, {"labels": ["b", "a"]}),
        ({"labels": None}, {"labels": []}),
        ({"labels": []}, {"labels": []}),
        ({"metadata": {"thread": None}}, {"metadata": {"owner": DESCRIBED["metadata"]["owner"]}}),
        (
            {"metadata": {"owner": {"id": None, "seat": 2}, "new": [1]}},
            {"metadata": {"thread": "t-17", "owner": {"team": "north", "seat": 2}, "new": [1]}},
        ),
        ({"metadata": None}, {"metadata": {}}),
    ],
)
async def test_patch_changes_what_it_has_and_leaves_the_rest(
    idle: RunningGateway, change: dict[str, Any], after: dict[str, Any]
) -> None:
    session = await idle.open_session("assistant", **DESCRIBED)
    done = await describe_session(idle, session, **change)
    assert (done.status_code, done.json()["sequence"]) == (200, 2), done.text
    assert await fetch_description(idle, session) == DESCRIBED | after
    assert await fetch_description(idle, session, at=1) == DESCRIBED
    [event] = await list_events(idle, session)
    assert set(event["data"]) == set(change), "an event has only what changed"


@pytest.mark.parametrize(
    "change",
    [
        {"title": TITLE},
        {"labels": DESCRIBED["labels"]},
        {"metadata": {}},
        {"metadata": {"thread": "t-17", "absent": None}},
        DESCRIBED,
    ],
)
async def test_patch_that_changes_nothing_records_nothing(
    idle: RunningGateway, change: dict[str, Any]
) -> None:
    session = await idle.open_session("assistant", **DESCRIBED)
    done = await describe_session(idle, session, **change)
    assert (done.status_code, done.json()["sequence"]) == (200, 1)


async def test_number_in_place_of_a_flag_is_a_change(idle: RunningGateway) -> None:
    session = await idle.open_session("assistant", metadata={"pinned": True})
    await describe_session(idle, session, metadata={"pinned": 1})
    assert (await fetch_description(idle, session))["metadata"] == {"pinned": 1}
    assert len(await list_events(idle, session)) == 1


async def test_closed_session_is_renamed(idle: RunningGateway) -> None:
    session = await idle.open_session("assistant")
    await idle.http.post(f"/v1/sessions/{session}/close")
    assert (await describe_session(idle, session, title=TITLE)).status_code == 200
    assert (await fetch_description(idle, session))["title"] == TITLE


async def test_fork_has_the_title_labels_and_metadata_of_its_point(idle: RunningGateway) -> None:
    session = await idle.open_session("assistant", **DESCRIBED)
    await describe_session(idle, session, title="Later")
    for at, title in ((1, TITLE), (2, "Later")):
        forked = await idle.http.post(f"/v1/sessions/{session}/fork", json={"at": at})
        found = await fetch_description(idle, forked.json()["session"])
        assert found == DESCRIBED | {"title": title}


async def test_repeated_patch_gets_the_same_answer_and_another_one_is_refused(
    idle: RunningGateway,
) -> None:
    session = await idle.open_session("assistant", **DESCRIBED)
    key = {"Idempotency-Key": "once"}
    first = await describe_session(idle, session, key, title=None)
    again = await describe_session(idle, session, key, title=None)
    assert (again.status_code, again.json()) == (200, first.json())
    other = await describe_session(idle, session, key, labels=None)
    assert (other.status_code, other.json()["code"]) == (409, "key-reused")
    assert (await fetch_description(idle, session))["labels"] == DESCRIBED["labels"]


async def test_sessions_are_found_by_title_and_by_label(idle: RunningGateway) -> None:
    other = await idle.open_session("assistant", title="Nothing", labels=["Travel"])
    session = await idle.open_session("assistant", **DESCRIBED)
    turn = await idle.submit_turn(session, "Where is the HARBOUR?")
    seen = f"{session}:{turn['sequence']}"

    async def find(**query: str) -> list[str]:
        return [each["session"] for each in await list_sessions(idle, seen, **query)]

    assert await find(q="to holm") == [session]
    assert await find(q="harbour") == [session], "the first words are still found"
    assert await find(label="travel") == [session], "labels are compared as they are"
    assert await find(label="Büro Nord", q="holm") == [session]
    assert await find(label="trav") == []
    done = await describe_session(idle, other, title="Holm", labels=["travel", "new"])
    seen = f"{other}:{done.json()['sequence']}"
    assert await find(label="travel") == [session, other]
    assert await find(label="Travel") == []
    assert await find(q="nothing") == []


LONG: Final = "x" * 10_000

DEEP: Final[Any] = [[[[[[[[[[[[[[[[["too deep"]]]]]]]]]]]]]]]]]

UNFIT: Final[list[tuple[dict[str, Any], int, str]]] = [
    ({"title": "x" * 201}, 422, "title"),
    ({"title": LONG}, 422, "title"),
    ({"title": "two\nlines"}, 422, "title"),
    ({"title": "a\u2028b"}, 422, "title"),
    ({"title": "bell\x07"}, 422, "title"),
    ({"title": " \u200b "}, 422, "title"),
    ({"title": 7}, 422, "title"),
    ({"labels": [str(number) for number in range(1_000)]}, 422, "labels"),
    ({"labels": ["ok", ""]}, 422, "labels.1"),
    ({"labels": ["ok", "x" * 65]}, 422, "labels.1"),
    ({"labels": ["ok", "a\tb"]}, 422, "labels.1"),
    ({"labels": ["  "]}, 422, "labels.0"),
    ({"labels": "travel"}, 422, "labels"),
    ({"labels": [None]}, 422, "labels.0"),
    ({"metadata": {"deep": DEEP}}, 422, "metadata.deep" + ".0" * 15),
    ({"metadata": {"big": "x" * MAX_METADATA_BYTES}}, 413, "metadata"),
    ({"metadata": {"number": 2**53}}, 422, "metadata.number"),
    ({"metadata": ["a"]}, 422, "metadata"),
]


@pytest.mark.parametrize(("form", "status", "field"), UNFIT)
async def test_unfit_description_is_refused_with_its_field_and_nothing_of_its_value(
    idle: RunningGateway, form: dict[str, Any], status: int, field: str
) -> None:
    opened = await idle.http.post("/v1/sessions", json={"blueprint": "assistant"} | form)
    session = await idle.open_session("assistant")
    patched = await describe_session(idle, session, **form)
    for answer in (opened, patched):
        problem = answer.json()
        assert (answer.status_code, problem["field"]) == (status, field), problem
        assert "xx" not in answer.text
        assert "two" not in answer.text
    assert await list_events(idle, session) == []


@pytest.mark.parametrize("text", ['"\\u0000"', '"\\ud83d"', '["\\u0000"]', '{"a":"\\udc00"}'])
async def test_text_that_cannot_be_stored_is_refused(idle: RunningGateway, text: str) -> None:
    session = await idle.open_session("assistant")
    for name in DESCRIBED:
        body = f'{{"{name}": {text}}}'.encode()
        headers = {"Content-Type": "application/json"}
        answer = await idle.http.patch(f"/v1/sessions/{session}", content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (422, "bad-text")


async def test_metadata_may_not_grow_over_their_limit_by_patches(idle: RunningGateway) -> None:
    session = await idle.open_session("assistant")
    half = "x" * (MAX_METADATA_BYTES // 2)
    assert (await describe_session(idle, session, metadata={"a": half})).status_code == 200
    answer = await describe_session(idle, session, metadata={"b": half})
    assert (answer.status_code, answer.json()["field"]) == (413, "metadata")
    assert (await describe_session(idle, session, metadata={"a": half, "b": 1})).status_code == 200


@pytest.mark.parametrize(("letter", "length"), [("x", 1), ("é", 2), ("漢", 3), ("🙂", 4)])
async def test_limit_of_metadata_is_one_of_bytes_in_every_script(
    idle: RunningGateway, letter: str, length: int
) -> None:
    session = await idle.open_session("assistant")
    most = (MAX_METADATA_BYTES - len('{"a":""}')) // length
    kept = await describe_session(idle, session, metadata={"a": letter * most})
    assert kept.status_code == 200
    refused = await describe_session(idle, session, metadata={"a": letter * (most + 1)})
    size = len('{"a":""}') + (most + 1) * length
    assert (refused.status_code, f"has {size} bytes" in refused.json()["detail"]) == (413, True)


async def test_patch_without_a_field_or_of_an_unknown_session_is_refused(
    idle: RunningGateway,
) -> None:
    session = await idle.open_session("assistant")
    empty = await describe_session(idle, session)
    assert (empty.status_code, empty.json()["field"]) == (422, "title")
    missing = await describe_session(idle, "nowhere", title=TITLE)
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown-session")


async def test_no_prompt_has_the_title_labels_or_metadata(stand: RunningGateway) -> None:
    words = {"title": "zebra", "labels": ["zebra"], "metadata": {"zebra": "zebra"}}
    session = await stand.open_session("assistant", **words)
    await describe_session(stand, session, title="zebra two")
    await stand.submit_and_answer(session, "Hi", "Hello.")
    prompt = await stand.http.get(f"/v1/sessions/{session}/calls/1.1/prompt")
    assert prompt.status_code == 200
    assert "zebra" not in prompt.text


@pytest.mark.parametrize("name", ["meta", "metadata"])
async def test_metadata_of_a_turn_is_recorded_under_either_name(
    idle: RunningGateway, name: str
) -> None:
    session = await idle.open_session("assistant")
    await idle.submit_turn(session, "Hi", **{name: {"client_message_id": "m1"}})
    [turn] = (await idle.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert turn["meta"] == {"client_message_id": "m1"}
    page = await idle.fetch_json(f"/v1/sessions/{session}/events")
    assert page["events"][-1]["data"]["meta"] == {"client_message_id": "m1"}


async def test_two_names_of_metadata_are_taken_if_they_agree(idle: RunningGateway) -> None:
    session = await idle.open_session("assistant")
    path = f"/v1/sessions/{session}/turns"
    form = {"text": "Hi", "meta": {"id": 1}, "metadata": {"id": True}}
    answer = await idle.http.post(path, json=form)
    assert (answer.status_code, answer.json()["field"]) == (422, "metadata")
    answer = await idle.http.post(path, json=form | {"metadata": {"id": 1}})
    assert answer.status_code == 202, answer.text
