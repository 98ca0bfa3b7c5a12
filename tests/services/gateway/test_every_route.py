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

from tests.services.gateway.routes import OF_SESSIONS, ROUTES, WITH_BODY, Route, numbers_in
from tests.services.gateway.stand import Stand
from turnlog.services.gateway.http.strict_json import MAX_DEPTH
from turnlog.services.gateway.problem_details import PROBLEM_MEDIA_TYPE

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


def field(value: str) -> bytes:
    """Return a body with a field `meta` that no route has."""
    return b'{"meta":' + value.encode() + b"}"


BODIES: Mapping[str, tuple[bytes, int, str]] = {
    "not JSON": (b"a=b", 400, "bad-json"),
    "nothing but blanks": (b"  ", 400, "bad-json"),
    "cut short": (b'{"a"', 400, "bad-json"),
    "trailing data": (b"{} {}", 400, "bad-json"),
    "half a character": (b'{"a":"\xf0\x9f"}', 400, "bad-json"),
    "NaN": (field("NaN"), 422, "bad-number"),
    "a huge number": (field("1e999"), 422, "bad-number"),
    "an endless number": (field("9" * 100_000), 422, "bad-number"),
    "a key twice": (b'{"a":1,"a":2}', 422, "duplicate-key"),
    "a lone surrogate": (field('"\\ud83d"'), 422, "bad-text"),
    "NUL": (field('"\\u0000"'), 422, "bad-text"),
    "deep": (field("[" * DEEP + "]" * DEEP), 422, "too-deep"),
    "a little too deep": (field("[" * MAX_DEPTH + "]" * MAX_DEPTH), 422, "too-deep"),
    "a list": (b"[]", 422, "invalid"),
    "a number": (b"7", 422, "invalid"),
}
MODEL_PARAMETERS = ("api_base", "api_key", "model", "base_url", "extra_headers", "temperature")
LARGER = {
    "/v1/segments/import": 9_000_000,
    "/v1/verify": 70_000_000,
    "/v1/what-if": 9_000_000,
}
"""Routes with bodies of some megabytes, and the size that is too large for each."""
NO_KEYS = (b"", b"a\tb", b"x" * 201, b"\xff", "\u0430".encode())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(bare: Stand) -> str:
    """An open session whose only turn was cancelled."""
    opened = await bare.open("assistant")
    await bare.submit(opened)
    await bare.http.post(f"/v1/sessions/{opened}/cancel")
    return opened


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def _nothing_half_done(bare: Stand, session: str) -> AsyncIterator[None]:
    before = await bare.get(f"/v1/sessions/{session}"), await bare.stored()
    yield
    assert before == (await bare.get(f"/v1/sessions/{session}"), await bare.stored())


def every(routes: tuple[Route, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("route", routes, ids=str)


async def ask(stand: Stand, route: Route, path: str, **more: Any) -> httpx.Response:  # noqa: ANN401
    if route.form is not None and "content" not in more:
        more["json"] = route.form
    return await stand.http.request(route.method, path, **more)


def assert_refused(answer: httpx.Response, *expected: object) -> None:
    """A problem, with its status, code and field as far as they are given, and a way out."""
    assert answer.headers["Content-Type"] == PROBLEM_MEDIA_TYPE, answer.text
    said = answer.json()
    assert (said["status"], said["code"], said.get("field"))[: len(expected)] == expected, said
    assert answer.status_code == said["status"] < 500
    assert said["detail"]
    assert said["fix"]


@every(OF_SESSIONS)
async def test_what_is_no_id_is_refused(bare: Stand, route: Route) -> None:
    for spelt in NO_IDS.values():
        answer = await ask(bare, route, route.path(session=quote(spelt, safe="")))
        assert_refused(answer, 422, "bad-id", "session")


@every(OF_SESSIONS)
async def test_a_path_that_leads_elsewhere_leads_nowhere(bare: Stand, route: Route) -> None:
    for spelt in ("..%2F..", "%2e%2e%2f", "a%2Fb", "", "%2F"):
        answer = await ask(bare, route, route.path(session=spelt))
        assert answer.status_code in {404, 405, 422}, answer.text
        assert_refused(answer)


@every(OF_SESSIONS)
async def test_a_session_that_nobody_opened_is_unknown(bare: Stand, route: Route) -> None:
    assert_refused(await ask(bare, route, route.path()), 404, "unknown-session", "session")


@every(tuple(route for route in ROUTES if "{turn}" in route.template))
async def test_what_is_no_turn_is_refused(bare: Stand, session: str, route: Route) -> None:
    for spelt in (*NO_NUMBERS[1:], "0"):
        answer = await ask(bare, route, route.path(session=session, turn=quote(spelt)))
        assert_refused(answer, 422, "invalid", "turn")
    answer = await ask(bare, route, route.path(session=session, turn="9007199254740991"))
    assert_refused(answer, 404, "unknown-turn", "turn")


@every(tuple(route for route in ROUTES if "{call}" in route.template))
async def test_what_is_no_call_is_unknown(bare: Stand, session: str, route: Route) -> None:
    for spelt in ("1.1", "1", "%00", "1.1%0A", "9" * 5_000, "*", "%D9%A1.1"):
        answer = await ask(bare, route, route.path(session=session, call=spelt))
        assert_refused(answer, 404, "unknown-call", "call")


@every(ROUTES)
async def test_a_parameter_that_nobody_knows_is_refused(
    bare: Stand, session: str, route: Route
) -> None:
    for name in ("api_key", "tenant", "min_sequnce", "%00", "x" * 5_000, "attribute"):
        answer = await ask(bare, route, route.path(session=session) + f"?{name}=1")
        assert_refused(answer, 422, "invalid")
        assert answer.json()["field"]


@every(tuple(route for route in ROUTES if route.parameters("query")))
async def test_a_parameter_given_twice_is_refused(bare: Stand, session: str, route: Route) -> None:
    for name in route.parameters("query"):
        answer = await ask(bare, route, route.path(session=session) + f"?{name}=1&{name}=2")
        assert_refused(answer, 422, "invalid", name)


@every(tuple(route for route in ROUTES if route.parameters("query")))
async def test_what_is_no_number_is_refused_by_its_parameter(
    bare: Stand, session: str, route: Route
) -> None:
    for name, schema in route.parameters("query").items():
        for spelt in NO_NUMBERS if numbers_in(schema) else ():
            path = f"{route.path(session=session)}?{name}={quote(spelt)}"
            assert_refused(await ask(bare, route, path), 422, "invalid", name)


@every(WITH_BODY)
async def test_a_body_that_no_reader_could_rely_on_is_refused(
    bare: Stand, session: str, route: Route
) -> None:
    headers = {"Content-Type": "application/json"}
    for body, status, code in BODIES.values():
        path = route.path(session=session)
        answer = await ask(bare, route, path, content=body, headers=headers)
        assert_refused(answer, status, code)
        assert answer.json()["field"]


@every(tuple(route for route in ROUTES if route.form is None))
async def test_what_is_sent_to_a_route_that_takes_nothing_is_refused_and_not_overlooked(
    bare: Stand, session: str, route: Route
) -> None:
    for body, field in ({"x": 1}, "x"), (["x"], "body"), (7, "body"):
        answer = await ask(bare, route, route.path(session=session), json=body)
        assert_refused(answer, 422, "invalid", field)


@every(ROUTES)
async def test_a_body_is_small_plain_and_said_to_be_json(
    bare: Stand, session: str, route: Route
) -> None:
    path, kind = route.path(session=session), {"Content-Type": "application/json"}
    bomb = gzip.compress(b" " * 1_000_000)
    for content, headers, status, named in (
        (b" " * LARGER.get(route.template, 300_000), kind, 413, "body"),
        (bomb, kind | {"Content-Encoding": "gzip"}, 415, "Content-Encoding"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "Content-Type"),
        (b"{}", {}, 415, "Content-Type"),
    ):
        answer = await ask(bare, route, path, content=content, headers=headers)
        assert_refused(answer, status)
        assert answer.json()["field"] == named


@every(WITH_BODY)
async def test_nobody_but_the_operator_has_a_say_in_what_a_model_is_asked_by(
    bare: Stand, session: str, route: Route
) -> None:
    # What a window would be for another model is asked without asking that model
    supposed = route.template.endswith(("/window", "/what-if"))
    shown = {"model"} if supposed else set[str]()
    for name in MODEL_PARAMETERS:
        if name in shown:
            continue
        form = dict(route.form or {}) | {name: "http://elsewhere/secret"}
        answer = await ask(
            bare,
            route,
            route.path(session=session),
            content=json.dumps(form),
            headers={"Content-Type": "application/json"},
        )
        assert_refused(answer, 422, "invalid", name)
        assert "elsewhere" not in answer.text


@every(tuple(route for route in ROUTES if "Idempotency-Key" in route.parameters("header")))
async def test_what_can_be_no_key_is_refused(bare: Stand, session: str, route: Route) -> None:
    for key in NO_KEYS:
        headers = [(b"Idempotency-Key", key)]
        answer = await ask(bare, route, route.path(session=session), headers=headers)
        assert_refused(answer, 400, "bad-key", "Idempotency-Key")


async def test_every_command_takes_a_key() -> None:
    said = [route for route in ROUTES if route.method in {"POST", "PUT", "DELETE"}]
    without = [route for route in said if "Idempotency-Key" not in route.parameters("header")]
    # These record nothing
    assert {str(route) for route in without} == {
        "POST /v1/sessions/{session}/references/resolve",
        "POST /v1/sessions/{session}/window",
        "POST /v1/verify",
        "POST /v1/what-if",
    }


@every(ROUTES)
async def test_no_route_knows_another_method(bare: Stand, session: str, route: Route) -> None:
    for method in ("OPTIONS", "TRACE", "BREW"):
        answer = await bare.http.request(method, route.path(session=session))
        assert_refused(answer, 405, "method-not-allowed")
        assert answer.headers["Allow"]


@every(tuple(route for route in ROUTES if str(route).endswith(("events", "stream", "POST"))))
async def test_a_form_that_is_not_offered_is_refused(
    bare: Stand, session: str, route: Route
) -> None:
    for spelt in ("text/html", "application/json;q=0", ";;", "*/*;q=nonsense"):
        answer = await ask(bare, route, route.path(session=session), headers={"Accept": spelt})
        assert_refused(answer, 406, "not-acceptable", "Accept")
