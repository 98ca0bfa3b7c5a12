"""Any string as an id and any JSON as a value: kept unchanged, or refused with its field."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.services.gateway.gateway_service import RunningGateway
from turnlog.events.ids import ID_PATTERN

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow("many generated cases are tried"),
]

CALM: Final = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

NEARLY: Final = st.text("aZ09_-.*>$ /\\\u0430\uff41\u200b\n\r\0%", min_size=1, max_size=70)

NUMBERS: Final = st.integers() | st.floats()

TEXTS: Final = st.text(st.characters())

VALUES: Final = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda within: st.lists(within, max_size=4) | st.dictionaries(TEXTS, within, max_size=4),
    max_leaves=12,
)

REFUSED: Final = {"bad-text", "bad-number", "too-deep", "bad-json", "duplicate-key"}


@contextmanager
def open_client(stand: RunningGateway) -> Generator[httpx.Client]:
    headers = {"Content-Type": "application/json"}
    with httpx.Client(base_url=stand.address, headers=headers, timeout=60) as http:
        yield http


def encode_json(value: object) -> bytes:
    """Return JSON as Python writes it, NaN and lone surrogates included."""
    return json.dumps(value).encode()


def is_same_json(one: object, other: object) -> bool:
    """Return whether two values have the same JSON: 1 is not 1.0, and -0.0 is not 0.0."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


async def run_property(property_of: Callable[[], None]) -> None:
    await asyncio.to_thread(property_of)


async def test_any_session_id_is_stored_unchanged_or_refused(
    bare: RunningGateway,
) -> None:
    with open_client(bare) as http:

        @CALM
        @given(st.text() | NEARLY | st.from_regex(ID_PATTERN, fullmatch=True))
        @example("..")
        @example("\ud800")
        def arrives(session: str) -> None:
            body = encode_json({"blueprint": "anything", "session": session})
            opened = http.post("/v1/sessions", content=body)
            if re.fullmatch(ID_PATTERN, session) is None:
                assert opened.json()["field"] == "session"
                assert opened.json()["code"] in {"bad-id", "bad-text"}
                return
            assert opened.status_code == 201 or opened.json()["code"] == "session-exists"
            session_view = http.get(f"/v1/sessions/{quote(session)}").json()
            (event,) = http.get(f"/v1/sessions/{session}/events").json()["events"]
            query: dict[str, str] = {"q": session, "min_sequence": f"{session}:1", "limit": "500"}
            listed = http.get("/v1/sessions", params=query).json()["sessions"]
            assert (session_view["session"], event["subject"]) == (session, session)
            assert session in [each["session"] for each in listed]

        await run_property(arrives)


async def test_any_json_attribute_is_returned_unchanged_or_refused(
    bare: RunningGateway,
) -> None:
    with open_client(bare) as http:

        @CALM
        @given(VALUES)
        @example(-0.0)
        @example(1e22)
        @example(float("nan"))
        def comes_back(value: object) -> None:
            given_ = {"list": [value], "map": {"a": value}}
            body = encode_json({"blueprint": "anything", "attributes": given_})
            opened = http.post("/v1/sessions", content=body).json()
            if "code" in opened:
                assert_refused(opened, "attributes")
                return
            session = opened["session"]
            stored = http.get(f"/v1/sessions/{session}/events").json()["events"][0]
            session_view = http.get(f"/v1/sessions/{session}").json()
            query = {"q": session, "min_sequence": f"{session}:1"}
            (row,) = http.get("/v1/sessions", params=query).json()["sessions"]
            for kept in (
                stored["data"]["attributes"],
                session_view["attributes"],
                row["attributes"],
            ):
                assert is_same_json(kept, given_)

        await run_property(comes_back)


async def test_any_json_of_a_turn_is_returned_unchanged_or_refused(
    bare: RunningGateway,
) -> None:
    session = await bare.open_session("anything")
    with open_client(bare) as http:

        @CALM
        @given(VALUES, TEXTS.filter(bool))
        @example([[[]]], "\u2028\u0085 \x1f \U0001f642")
        def comes_back(value: object, text: str) -> None:
            given_ = {"meta": {"a": value}, "references": {"a": value}, "inputs": {"list": [value]}}
            response = http.post(
                f"/v1/sessions/{session}/turns", content=encode_json({"text": text} | given_)
            )
            answer = response.json()
            if response.status_code != 202:
                assert_refused(answer, "text", "meta", "references", "inputs")
                return
            after = {"after": answer["sequence"] - 1, "limit": 1}
            (event,) = http.get(f"/v1/sessions/{session}/events", params=after).json()["events"]
            assert all(is_same_json(event["data"][name], given_[name]) for name in given_)
            assert event["data"]["text"]["text"] == text
            turn = http.get(f"/v1/sessions/{session}/history").json()["turns"][-1]
            assert (turn["turn"], turn["text"]) == (answer["turn"], text)

        await run_property(comes_back)


def assert_refused(problem: dict[str, Any], *fields: str) -> None:
    assert problem["code"] in REFUSED
    assert problem["field"].split(".")[0] in fields
    assert problem["fix"]
