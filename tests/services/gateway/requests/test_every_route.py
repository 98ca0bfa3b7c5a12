"""Invalid requests to every route: refused with the field and without effect."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio

from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.requests.route_table import (
    BODY_ROUTES,
    JSON_ROUTES,
    ROUTES,
    SESSION_ROUTES,
    DocumentedRoute,
    is_integer_schema,
)
from turnlog.projections.blueprint.bounded_json import MAX_JSON_NESTING
from turnlog.services.http.problem_details import PROBLEM_MEDIA_TYPE

pytestmark = pytest.mark.asyncio(loop_scope="module")

NO_IDS = {
    "a dot": "a.b",
    "a star": "a*b",
    "a wildcard": ">",
    "a dollar": "$JS",
    "a blank": "a b",
    "CR and LF": "a\r\nb",
    "LF behind": "a\n",
    "NUL": "\0",
    "a look-alike": "\u0430",
    "a wide look-alike": "\uff41",
    "an invisible": "a\u200b",
    "a hidden path": "..;",
    "too long": "x" * 65,
    "far too long": "x" * 20_000,
}

NO_NUMBERS = ("", "x", "1.5", "-1", "NaN", "9007199254740992", "9" * 5_000, "\u0661x", "\0")

DEEP = 10_000


def build_body_with_field(value: str) -> bytes:
    """Return a body with a field `meta` that no route has."""
    return b'{"meta":' + value.encode() + b"}"


BODIES: Mapping[str, tuple[bytes, int, str]] = {
    "not JSON": (b"a=b", 400, "bad-json"),
    "nothing but blanks": (b"  ", 400, "bad-json"),
    "cut short": (b'{"a"', 400, "bad-json"),
    "trailing data": (b"{} {}", 400, "bad-json"),
    "half a character": (b'{"a":"\xf0\x9f"}', 400, "bad-json"),
    "NaN": (build_body_with_field("NaN"), 422, "bad-number"),
    "a huge number": (build_body_with_field("1e999"), 422, "bad-number"),
    "an endless number": (build_body_with_field("9" * 100_000), 422, "bad-number"),
    "a key twice": (b'{"a":1,"a":2}', 422, "duplicate-key"),
    "a lone surrogate": (build_body_with_field('"\\ud83d"'), 422, "bad-text"),
    "NUL": (build_body_with_field('"\\u0000"'), 422, "bad-text"),
    "deep": (build_body_with_field("[" * DEEP + "]" * DEEP), 422, "too-deep"),
    "a little too deep": (
        build_body_with_field("[" * MAX_JSON_NESTING + "]" * MAX_JSON_NESTING),
        422,
        "too-deep",
    ),
    "a list": (b"[]", 422, "invalid"),
    "a number": (b"7", 422, "invalid"),
}

MODEL_PARAMETERS = ("api_base", "api_key", "model", "base_url", "extra_headers", "temperature")

LARGER = {
    "/v1/segments/import": 9_000_000,
    "/v1/knowledge/import": 9_000_000,
    "/v1/verify": 110_000_000,
    "/v1/checkpoint": 110_000_000,
    "/v1/what-if": 9_000_000,
    "/v1/sessions/{session}/turns": 9_000_000,
    "/v1/ask": 9_000_000,
    "/v1/sessions/{session}/window": 9_000_000,
    "/v1/assemble": 9_000_000,
}
"""Routes with bodies of some megabytes, and the size that is too large for each."""

NO_KEYS = (b"", b"a\tb", b"x" * 201, b"\xff", "\u0430".encode())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(bare: RunningGateway) -> str:
    """An open session whose only turn was cancelled."""
    opened = await bare.open_session("assistant")
    await bare.submit_turn(opened)
    await bare.http.post(f"/v1/sessions/{opened}/cancel")
    return opened


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def _nothing_half_done(bare: RunningGateway, session: str) -> AsyncIterator[None]:
    before = await bare.fetch_json(f"/v1/sessions/{session}"), await bare.count_stored_events()
    yield
    assert before == (
        await bare.fetch_json(f"/v1/sessions/{session}"),
        await bare.count_stored_events(),
    )


def mark_with_routes(routes: tuple[DocumentedRoute, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("route", routes, ids=str)


async def send_request(
    stand: RunningGateway,
    route: DocumentedRoute,
    path: str,
    **more: Any,  # noqa: ANN401
) -> httpx.Response:
    if route.form is not None and "content" not in more:
        more["json"] = route.form
    if route.query and "?" not in path:
        more.setdefault("params", route.query)
    return await stand.http.request(route.method, path, **more)


def assert_refused(answer: httpx.Response, *expected: object) -> None:
    """A problem, with its status, code and field as far as they are given, and a way out."""
    assert answer.headers["Content-Type"] == PROBLEM_MEDIA_TYPE, answer.text
    problem = answer.json()
    assert (problem["status"], problem["code"], problem.get("field"))[
        : len(expected)
    ] == expected, problem
    assert answer.status_code == problem["status"] < 500
    assert problem["detail"]
    assert problem["fix"]


@mark_with_routes(SESSION_ROUTES)
async def test_invalid_session_id_is_refused(bare: RunningGateway, route: DocumentedRoute) -> None:
    for session_id in NO_IDS.values():
        answer = await send_request(
            bare, route, route.build_path(session=quote(session_id, safe=""))
        )
        assert_refused(answer, 422, "bad-id", "session")


@mark_with_routes(SESSION_ROUTES)
async def test_path_traversal_in_a_session_id_is_refused(
    bare: RunningGateway, route: DocumentedRoute
) -> None:
    for session_id in ("..%2F..", "%2e%2e%2f", "a%2Fb", "", "%2F"):
        answer = await send_request(bare, route, route.build_path(session=session_id))
        assert answer.status_code in {404, 405, 422}, answer.text
        assert_refused(answer)


@mark_with_routes(SESSION_ROUTES)
async def test_missing_session_returns_404(bare: RunningGateway, route: DocumentedRoute) -> None:
    assert_refused(
        await send_request(bare, route, route.build_path()), 404, "unknown-session", "session"
    )


@mark_with_routes(tuple(route for route in ROUTES if "{turn}" in route.template))
async def test_invalid_turn_number_is_refused_and_missing_turn_returns_404(
    bare: RunningGateway, session: str, route: DocumentedRoute
) -> None:
    for turn_number in (*NO_NUMBERS[1:], "0"):
        answer = await send_request(
            bare, route, route.build_path(session=session, turn=quote(turn_number))
        )
        assert_refused(answer, 422, "invalid", "turn")
    answer = await send_request(
        bare, route, route.build_path(session=session, turn="9007199254740991")
    )
    assert_refused(answer, 404, "unknown-turn", "turn")


@mark_with_routes(tuple(route for route in ROUTES if "{call}" in route.template))
async def test_invalid_or_missing_call_id_returns_404(
    bare: RunningGateway, session: str, route: DocumentedRoute
) -> None:
    for call_id in ("1.1", "1", "%00", "1.1%0A", "9" * 5_000, "*", "%D9%A1.1"):
        answer = await send_request(bare, route, route.build_path(session=session, call=call_id))
        assert_refused(answer, 404, "unknown-call", "call")


@mark_with_routes(tuple(route for route in ROUTES if route.template.endswith("/{user}")))
async def test_user_in_a_path_with_a_line_break_is_not_another_one(
    bare: RunningGateway, session: str, route: DocumentedRoute
) -> None:
    path = route.build_path(session=session, user="ann%0A")
    assert_refused(await send_request(bare, route, path), 422, "invalid", "user")


@mark_with_routes(ROUTES)
async def test_unknown_query_parameter_is_refused(
    bare: RunningGateway, session: str, route: DocumentedRoute
) -> None:
    for name in ("api_key", "tenant", "min_sequnce", "%00", "x" * 5_000, "attribute"):
        answer = await send_request(bare, route, route.build_path(session=session) + f"?{name}=1")
        assert_refused(answer, 422, "invalid")
        assert answer.json()["field"]


@mark_with_routes(tuple(route for route in ROUTES if route.list_parameters("query")))
async def test_repeated_query_parameter_is_refused(
    bare: RunningGateway, session: str, route: DocumentedRoute
) -> None:
    for name in route.list_parameters("query"):
        answer = await send_request(
            bare, route, route.build_path(session=session) + f"?{name}=1&{name}=2"
        )
        assert_refused(answer, 422, "invalid", name)


@mark_with_routes(tuple(route for route in ROUTES if route.list_parameters("query")))
async def test_invalid_integer_parameter_is_refused_by_name(
    bare: RunningGateway, session: str, route: DocumentedRoute
) -> None:
    for name, schema in route.list_parameters("query").items():
        for value in NO_NUMBERS if is_integer_schema(schema) else ():
            path = f"{route.build_path(session=session)}?{name}={quote(value)}"
            assert_refused(await send_request(bare, route, path), 422, "invalid", name)


@mark_with_routes(BODY_ROUTES)
async def test_malformed_or_ambiguous_json_body_is_refused(
    bare: RunningGateway, session: str, route: DocumentedRoute
) -> None:
    headers = {"Content-Type": "application/json"}
    for body, status, code in BODIES.values():
        path = route.build_path(session=session)
        answer = await send_request(bare, route, path, content=body, headers=headers)
        assert_refused(answer, status, code)
        assert answer.json()["field"]


@mark_with_routes(tuple(route for route in JSON_ROUTES if route.form is None))
async def test_body_of_a_route_without_fields_is_refused(
    bare: RunningGateway, session: str, route: DocumentedRoute
) -> None:
    for body, field in ({"x": 1}, "x"), (["x"], "body"), (7, "body"):
        answer = await send_request(bare, route, route.build_path(session=session), json=body)
        assert_refused(answer, 422, "invalid", field)


@mark_with_routes(JSON_ROUTES)
async def test_oversized_encoded_or_untyped_body_is_refused(
    bare: RunningGateway, session: str, route: DocumentedRoute
) -> None:
    path, kind = route.build_path(session=session), {"Content-Type": "application/json"}
    bomb = gzip.compress(b" " * 1_000_000)
    for content, headers, status, named in (
        (b" " * LARGER.get(route.template, 300_000), kind, 413, "body"),
        (bomb, kind | {"Content-Encoding": "gzip"}, 415, "Content-Encoding"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "Content-Type"),
        (b"{}", {}, 415, "Content-Type"),
    ):
        answer = await send_request(bare, route, path, content=content, headers=headers)
        assert_refused(answer, status)
        assert answer.json()["field"] == named


@mark_with_routes(BODY_ROUTES)
async def test_requests_cannot_set_model_parameters(
    bare: RunningGateway, session: str, route: DocumentedRoute
) -> None:
    # What a window would be for another model is asked without asking that model
    is_preview = route.template.endswith(("/assemble", "/window", "/what-if"))
    allowed = {"model"} if is_preview else set[str]()
    for name in MODEL_PARAMETERS:
        if name in allowed:
            continue
        form = dict(route.form or {}) | {name: "http://elsewhere/secret"}
        answer = await send_request(
            bare,
            route,
            route.build_path(session=session),
            content=json.dumps(form),
            headers={"Content-Type": "application/json"},
        )
        assert_refused(answer, 422, "invalid", name)
        assert "elsewhere" not in answer.text


@mark_with_routes(
    tuple(route for route in ROUTES if "Idempotency-Key" in route.list_parameters("header"))
)
async def test_invalid_idempotency_key_is_refused(
    bare: RunningGateway, session: str, route: DocumentedRoute
) -> None:
    for key in NO_KEYS:
        headers = [(b"Idempotency-Key", key)]
        answer = await send_request(bare, route, route.build_path(session=session), headers=headers)
        assert_refused(answer, 400, "bad-key", "Idempotency-Key")


async def test_every_command_accepts_an_idempotency_key() -> None:
    commands = [route for route in ROUTES if route.method in {"POST", "PUT", "DELETE"}]
    without = [
        route for route in commands if "Idempotency-Key" not in route.list_parameters("header")
    ]
    # These record nothing, or the same once; a release folds into rows what the log holds already
    assert {str(route) for route in without} == {
        "POST /v1/assemble",
        "POST /v1/blobs",
        "POST /v1/checkpoint",
        "POST /v1/knowledge/search",
        "POST /v1/quarantine/{session}/release",
        "POST /v1/sessions/{session}/references/resolve",
        "POST /v1/sessions/{session}/tokens",
        "POST /v1/sign-in",
        "DELETE /v1/sign-in",
        "POST /v1/sessions/{session}/window",
        "POST /v1/verify",
        "POST /v1/what-if",
    }


@mark_with_routes(ROUTES)
async def test_unsupported_method_returns_405(
    bare: RunningGateway, session: str, route: DocumentedRoute
) -> None:
    for method in ("OPTIONS", "TRACE", "BREW"):
        answer = await bare.http.request(method, route.build_path(session=session))
        assert_refused(answer, 405, "method-not-allowed")
        assert answer.headers["Allow"]


@mark_with_routes(
    tuple(route for route in ROUTES if str(route).endswith(("events", "stream", "POST")))
)
async def test_unsupported_response_format_is_refused_with_406(
    bare: RunningGateway, session: str, route: DocumentedRoute
) -> None:
    for media_type in ("text/html", "application/json;q=0", ";;", "*/*;q=nonsense"):
        answer = await send_request(
            bare, route, route.build_path(session=session), headers={"Accept": media_type}
        )
        assert_refused(answer, 406, "not-acceptable", "Accept")
