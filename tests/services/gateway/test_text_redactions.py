"""Redactions of what people submitted: which part of a text they name, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.services.gateway.gateway_service import RunningGateway

SAID = "Ask Ann, ann@example.org or ☃ 4111."


async def redact_words(
    stand: RunningGateway, session: str, **form: object
) -> tuple[int, dict[str, Any]]:
    body = {"turn": 1, "of": "text", "reason": "a name", **form}
    answer = await stand.http.post(f"/v1/sessions/{session}/redactions", json=body)
    return answer.status_code, answer.json()


@pytest.mark.parametrize(
    ("form", "stands"),
    [
        ({}, "[withheld]"),
        ({"replacement": "(gone)"}, "(gone)"),
        ({"pattern": "(?i)ann"}, "Ask [withheld], [withheld]@example.org or ☃ 4111."),
        ({"pattern": r"\pL*@[a-z.]*|☃ ", "replacement": "-"}, "Ask Ann, - or -4111."),
        ({"pattern": "z*4*"}, "Ask Ann, ann@example.org or ☃ [withheld]111."),
        (
            {"spans": [{"begin": 30, "end": 34}, {"begin": 28, "end": 31}]},
            "Ask Ann, ann@example.org or [withheld].",
        ),
        ({"spans": [{"begin": 0, "end": 35}]}, "[withheld]"),
    ],
)
async def test_what_a_request_names_of_a_text_is_replaced(
    stand: RunningGateway, form: dict[str, object], stands: str
) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, SAID, "Yes.")
    status, _ = await redact_words(stand, session, **form)
    assert status == 200
    (turn,) = (await stand.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert (turn["text"], turn["text_withheld"], turn["redacted"]) == (stands, "a name", False)
    window = await stand.fetch_json(f"/v1/sessions/{session}/window")
    assert [message["content"] for message in window["messages"]][1:] == [stands, "Yes."]


@pytest.mark.parametrize(
    ("form", "status", "code", "field"),
    [
        ({"pattern": "Bob"}, 409, "no-match", "pattern"),
        ({"pattern": "z*"}, 409, "no-match", "pattern"),
        ({"pattern": "(Ann"}, 422, "invalid", "pattern"),
        ({"pattern": r"(A)\1"}, 422, "invalid", "pattern"),
        ({"pattern": ""}, 422, "invalid", "pattern"),
        ({"pattern": "a" * 1_001}, 422, "invalid", "pattern"),
        ({"pattern": "Ann", "spans": [{"begin": 0, "end": 1}]}, 422, "invalid", "spans"),
        ({"spans": [{"begin": 0, "end": 36}]}, 422, "invalid", "spans.0"),
        ({"spans": [{"begin": 2, "end": 2}]}, 422, "invalid", "spans.0"),
        ({"spans": [{"begin": -1, "end": 2}]}, 422, "invalid", "spans.0.begin"),
        ({"spans": []}, 422, "invalid", "spans"),
        ({"of": "reply", "pattern": "Ann"}, 422, "invalid", "pattern"),
        ({"of": "reply", "spans": [{"begin": 0, "end": 1}]}, 422, "invalid", "spans"),
        ({"of": "all"}, 422, "invalid", "of"),
        ({"replacement": ""}, 422, "invalid", "replacement"),
        ({"turn": 2}, 404, "unknown-turn", "turn"),
    ],
)
async def test_refusal_names_the_field_and_withholds_nothing(
    stand: RunningGateway, form: dict[str, object], status: int, code: str, field: str
) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, SAID, "Yes.")
    found, problem = await redact_words(stand, session, **form)
    assert (found, problem["code"], problem["field"]) == (status, code, field)
    assert problem["fix"]
    (turn,) = (await stand.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert (turn["text"], turn["text_withheld"]) == (SAID, None)


async def test_later_pattern_is_searched_in_what_stands_and_adds_to_it(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, SAID, "Yes.")
    await stand.submit_and_answer(session, "And?", "Yes.")
    statuses = [
        (await redact_words(stand, session, pattern=each))[0] for each in ("Ann", "4", "Ann")
    ]
    assert statuses == [200, 200, 409]
    turns = (await stand.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert turns[0]["text"] == "Ask [withheld], ann@example.org or ☃ [withheld]111."


async def test_text_and_reply_are_redacted_by_one_request(stand: RunningGateway) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, SAID, "Ann, I see.")
    status, _ = await redact_words(stand, session, of="turn", pattern="(?i)ann")
    assert status == 200
    (turn,) = (await stand.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert (turn["redacted"], turn["reply"]) == (True, "(Taken back.)")
    assert turn["text"].startswith("Ask [withheld], [withheld]@")
