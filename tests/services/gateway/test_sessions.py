"""Opening, reading and listing sessions."""

from __future__ import annotations

import pytest

from tests.services.gateway.gateway_service import RunningGateway


async def test_opening_a_session_returns_its_digest_and_initial_state(
    stand: RunningGateway,
) -> None:
    form = {"blueprint": "clerk", "attributes": {"desk": "d-7"}, "session": "mine"}
    answer = await stand.http.post("/v1/sessions", json=form)
    assert answer.status_code == 201
    assert answer.headers["Location"] == "/v1/sessions/mine"
    assert answer.headers["ETag"] == '"1"'
    opened = answer.json()
    digest = (await stand.fetch_json("/v1/blueprints/clerk"))["digest"]
    assert opened == {
        "session": "mine",
        "blueprint": "clerk",
        "digest": digest,
        "sequence": 1,
        "warnings": [],
    }
    session_view = await stand.fetch_json("/v1/sessions/mine")
    assert session_view["attributes"] == {"desk": "d-7", "language": "en"}
    assert (session_view["profile"], session_view["version"], session_view["closed"]) == (
        "chat",
        3,
        False,
    )
    assert (session_view["turns"], session_view["open"], session_view["waiting"]) == (0, None, [])


async def test_session_opened_without_an_id_gets_a_unique_id(stand: RunningGateway) -> None:
    assert len({await stand.open_session() for _ in range(3)}) == 3


async def test_session_opens_with_a_named_profile_and_an_unknown_one_is_refused(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session(profile="terse")
    assert (await stand.fetch_json(f"/v1/sessions/{session}"))["profile"] == "terse"
    form = {"blueprint": "clerk", "attributes": {"desk": "d"}, "profile": "ters"}
    answer = await stand.http.post("/v1/sessions", json=form)
    assert answer.status_code == 422
    assert (answer.json()["field"], answer.json()["fix"]) == ("profile", "write `terse`")


async def test_requested_profile_overrides_the_profile_of_the_start_phase(
    idle: RunningGateway,
) -> None:
    plain = await idle.open_session("uderia")
    chosen = await idle.open_session("uderia", profile="tool_enabled")
    views = [await idle.fetch_json(f"/v1/sessions/{each}") for each in (plain, chosen)]
    assert [(each["phase"], each["profile"]) for each in views] == [
        ("ideate", "llm_only"),
        ("ideate", "tool_enabled"),
    ]


async def test_profile_of_a_later_phase_overrides_the_requested_profile(
    idle: RunningGateway,
) -> None:
    session = await idle.open_session("uderia", profile="llm_only")
    profiles = []
    for phase in ("focus", "operate"):
        form = {"to": phase}
        answer = await idle.http.post(f"/v1/sessions/{session}/phase", json=form)
        assert answer.status_code == 200, answer.text
        profiles.append((await idle.fetch_json(f"/v1/sessions/{session}"))["profile"])
    assert profiles == ["llm_only", "tool_enabled"]


async def test_existing_session_id_is_refused(stand: RunningGateway) -> None:
    await stand.open_session(session="mine")
    form = {"blueprint": "clerk", "attributes": {"desk": "d"}, "session": "mine"}
    answer = await stand.http.post("/v1/sessions", json=form)
    assert answer.status_code == 409
    assert answer.json()["code"] == "session-exists"


async def test_session_view_shows_the_open_turn_and_the_queued_ones(idle: RunningGateway) -> None:
    session = await idle.open_session()
    for text in "abc":
        await idle.submit_turn(session, text)
    session_view = await idle.fetch_json(f"/v1/sessions/{session}")
    assert (session_view["open"]["turn"], session_view["open"]["attempt"]) == (1, 0)
    assert session_view["waiting"] == [2, 3]
    assert session_view["turns"] == 3
    assert session_view["sequence"] == 4


async def test_sessions_are_listed_newest_first_in_pages(stand: RunningGateway) -> None:
    opened = [await stand.open_session() for _ in range(5)]
    seen = f"{opened[-1]}:1"
    first = await stand.fetch_json("/v1/sessions", limit=3, min_sequence=seen)
    rest = await stand.fetch_json("/v1/sessions", limit=3, before=first["next"])
    listed = [each["session"] for each in (*first["sessions"], *rest["sessions"])]
    assert listed == opened[::-1]
    assert rest["next"] is None


@pytest.mark.parametrize(
    "query",
    [
        {"q": "inVoice"},
        {"attribute.desk": "d-2"},
        {"attribute[desk]": "d-2"},
        {"blueprint": "clerk", "attribute.desk": "d-2"},
        {"redacted": "true"},
    ],
)
async def test_session_list_applies_each_filter(
    stand: RunningGateway, query: dict[str, str]
) -> None:
    await stand.open_session("assistant")
    await stand.open_session()
    session = await stand.open_session(attributes={"desk": "d-2"})
    await stand.submit_and_answer(session, "File the INVOICE, please", "Done.")
    acted = await stand.http.post(
        f"/v1/sessions/{session}/redactions", json={"turn": 1, "reason": "wrong"}
    )
    seen = f"{session}:{acted.json()['sequence']}"
    found = await stand.fetch_json("/v1/sessions", **query, min_sequence=seen)
    assert [each["session"] for each in found["sessions"]] == [session]
    assert found["sessions"][0]["title"] == "File the INVOICE, please"


async def test_session_list_is_filtered_by_last_activity(stand: RunningGateway) -> None:
    session = await stand.open_session()
    listed = await stand.fetch_json("/v1/sessions", min_sequence=f"{session}:1")
    at = listed["sessions"][0]["last_at"]
    assert (await stand.fetch_json("/v1/sessions", since=at))["sessions"] != []
    assert (await stand.fetch_json("/v1/sessions", since="2999-01-01T00:00:00Z"))["sessions"] == []


async def test_sessions_are_listed_by_how_near_they_are_to_their_budget(
    stand: RunningGateway,
) -> None:
    longer = await stand.open_session("assistant")
    shorter = await stand.open_session("assistant")
    silent = await stand.open_session("assistant")
    await stand.submit_and_answer(longer, "Tell me everything. " * 50, "That is a lot.")
    done = await stand.submit_and_answer(shorter, "Hello", "Hello.")
    seen = f"{shorter}:{done['settled']}"
    first = await stand.fetch_json("/v1/sessions", order="near", limit=1, min_sequence=seen)
    rest = await stand.fetch_json("/v1/sessions", order="near", before=first["next"])
    rows = [*first["sessions"], *rest["sessions"]]
    assert [each["session"] for each in rows] == [longer, shorter, silent]
    calls = await stand.fetch_json(f"/v1/sessions/{longer}/calls")
    call = calls["calls"][0]
    assert rows[0]["budget_share"] == call["tokens"] * 1_000 // call["budget"] / 1_000
    assert rows[2]["budget_share"] is None


REFUSED = [
    ("blueprnt=clerk", "blueprnt"),
    ("attribute.desk=a&attribute.desk=b", "attribute.desk"),
    ("q=%00", "q"),
    ("attribute.desk=%00", "attribute.desk"),
    ("attribute.%00=a", "query"),
    ("attribute.desk=a&attribute[desk]=b", "attribute[desk]"),
    ("attribute=a", "attribute"),
    ("attribute[]=a", "attribute[]"),
    ("attribute[desk=a", "attribute[desk"),
    ("since=2026-01-01T00:00:00", "since"),
    ("since=yesterday", "since"),
    ("limit=0", "limit"),
    ("limit=many", "limit"),
    ("before=-1", "before"),
    ("before=99999999999999999999", "before"),
    ("before=7.900", "before"),
    ("order=near&before=7", "before"),
    ("order=nearest", "order"),
    ("near=-1", "near"),
    ("redacted=perhaps", "redacted"),
    ("min_sequence=7", "min_sequence"),
]


async def test_session_list_refuses_invalid_queries_with_their_field(idle: RunningGateway) -> None:
    for query, field in REFUSED:
        answer = await idle.http.get(f"/v1/sessions?{query}")
        assert (answer.status_code, answer.json()["field"]) == (422, field), query


async def test_session_list_does_not_wait_for_a_missing_session(idle: RunningGateway) -> None:
    answer = await idle.http.get("/v1/sessions?min_sequence=nobody:7")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown-session")
