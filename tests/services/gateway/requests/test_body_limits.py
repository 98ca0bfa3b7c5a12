"""Request bodies: size, speed and encoding, whatever the headers claim."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.requests.raw_http import open_raw_connection, post_raw

LIMIT = 4_096

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON = {"Content-Type": "application/json"}

CHUNKED = JSON | {"Transfer-Encoding": "chunked"}


def build_form(size: int) -> bytes:
    """Return a request body of `size` bytes that opens a session."""
    form = b'{"blueprint":"assistant"}'
    return form + b" " * (size - len(form))


def encode_chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def build_length_header(body: bytes) -> dict[str, str]:
    return JSON | {"Content-Length": str(len(body))}


@pytest.mark.promise("P14")
async def test_body_at_the_size_limit_is_accepted_and_one_byte_more_returns_413(
    bare: RunningGateway,
) -> None:
    async with bare.start_another_gateway(body_limit=LIMIT) as stand:
        for size, status in ((LIMIT - 1, 201), (LIMIT, 201), (LIMIT + 1, 413)):
            body = build_form(size)
            answer = await post_raw(stand.address, "/v1/sessions", body, build_length_header(body))
            assert answer.status == status, size
        problem = answer.parse_json()
        assert (problem["code"], problem["field"]) == ("too-large", "body")
        assert problem["fix"] == f"send at most {LIMIT} bytes"


async def test_checkpoint_body_may_exceed_the_limits_of_other_bodies(
    bare: RunningGateway,
) -> None:
    body = b'{"sessions":' + b" " * bare.settings.import_limit + b"{}}"
    for path in ("/v1/verify", "/v1/checkpoint"):
        answer = await post_raw(bare.address, path, body, build_length_header(body))
        assert (answer.status, answer.parse_json()["code"]) == (422, "invalid")


async def test_chunked_body_is_limited_by_its_actual_size(bare: RunningGateway) -> None:
    async with bare.start_another_gateway(body_limit=LIMIT) as stand:
        for size, status in ((LIMIT, 201), (LIMIT + 1, 413)):
            async with open_raw_connection(stand.address) as line:
                await line.send_head("POST", "/v1/sessions", CHUNKED)
                body = build_form(size)
                await line.send_bytes(
                    encode_chunk(body[:100]), encode_chunk(body[100:]), b"0\r\n\r\n"
                )
                assert (await line.read_response()).status == status


async def test_endless_body_gets_413_and_its_connection_is_closed(
    bare: RunningGateway,
) -> None:
    async with (
        bare.start_another_gateway(body_limit=LIMIT) as stand,
        open_raw_connection(stand.address) as line,
    ):
        await line.send_head("POST", "/v1/sessions", CHUNKED)
        piece = encode_chunk(b" " * 65_536)
        await line.send_bytes(*[piece] * 129)
        answer = await line.read_response()
        assert (answer.status, answer.headers["connection"]) == (413, "close")


async def test_slow_body_gets_408_and_its_connection_is_closed(bare: RunningGateway) -> None:
    async with (
        bare.start_another_gateway(body_seconds=0.2) as stand,
        open_raw_connection(stand.address) as line,
    ):
        await line.send_head("POST", "/v1/sessions", JSON | {"Content-Length": "100"})
        await line.send_bytes(b'{"blueprint":')
        answer = await line.read_response()
        assert (answer.status, answer.parse_json()["code"]) == (408, "too-slow")
        assert answer.headers["connection"] == "close"
        assert await line.is_closed()


async def test_slow_trickle_of_bytes_does_not_extend_the_body_timeout(
    bare: RunningGateway,
) -> None:
    async with (
        bare.start_another_gateway(body_seconds=0.3) as stand,
        open_raw_connection(stand.address) as line,
    ):
        await line.send_head("POST", "/v1/sessions", CHUNKED)
        answering = asyncio.create_task(line.read_response())
        while not answering.done():
            await line.send_bytes(encode_chunk(b" "))
            await asyncio.wait({answering}, timeout=0.02)
        assert (answering.result().status, answering.result().parse_json()["code"]) == (
            408,
            "too-slow",
        )


async def test_unfinished_request_head_gets_408_and_its_connection_is_closed(
    bare: RunningGateway,
) -> None:
    async with (
        bare.start_another_gateway(body_seconds=0.3) as stand,
        open_raw_connection(stand.address) as line,
    ):
        await line.send_bytes(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        answering = asyncio.create_task(line.read_response())
        while not answering.done():
            await line.send_bytes(b"X")
            await asyncio.wait({answering}, timeout=0.02)
        problem = answering.result().parse_json()
        assert (problem["status"], problem["code"], problem["field"]) == (408, "too-slow", "head")
        assert await line.is_closed()


async def test_idle_connection_is_closed_without_a_response(
    bare: RunningGateway,
) -> None:
    async with (
        bare.start_another_gateway(body_seconds=0.1) as stand,
        open_raw_connection(stand.address) as line,
    ):
        assert await line.is_closed()


async def test_head_timeout_does_not_limit_the_handling_of_a_request(
    bare: RunningGateway,
) -> None:
    session = await bare.open_session("assistant")
    async with (
        bare.start_another_gateway(body_seconds=1) as stand,
        open_raw_connection(stand.address) as line,
    ):
        body = b'{"text":"Hi"}'
        await line.send_head(
            "POST", f"/v1/sessions/{session}/turns?wait=1.3", build_length_header(body)
        )
        await line.send_bytes(body)
        assert (await line.read_response()).status == 202


NO_HTTP = {
    "a path that is not ASCII": "GET /ž HTTP/1.1\r\nHost: g\r\n\r\n".encode(),
    "NUL in the path": b"GET /a\0b HTTP/1.1\r\nHost: g\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "a negative length": b"POST /v1/sessions HTTP/1.1\r\nHost: g\r\nContent-Length: -1\r\n\r\n",
    "two lengths": (
        b"POST /v1/sessions HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"
    ),
    "a chunk without a size": (
        b"POST /v1/sessions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    ),
    "a head without end": b"GET /healthz HTTP/1.1\r\nHost: g\r\nX: " + b"x" * 200_000,
    "an unfolded header": b"GET /healthz HTTP/1.1\r\nHost: g\r\nX\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", NO_HTTP.values(), ids=NO_HTTP.keys())
async def test_malformed_http_gets_400_as_a_problem_document(
    bare: RunningGateway, request_bytes: bytes
) -> None:
    async with open_raw_connection(bare.address) as line:
        await line.send_bytes(request_bytes)
        answer = await line.read_response()
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.parse_json()
        assert (answer.status, problem["code"], problem["field"]) == (400, "bad-request", "head")
        assert problem["fix"]
    assert (await bare.http.get("/healthz")).status_code == 200


async def test_client_that_disconnects_while_sending_writes_no_events(
    bare: RunningGateway,
) -> None:
    before = await bare.count_stored_events()
    async with open_raw_connection(bare.address) as line:
        await line.send_head("POST", "/v1/sessions", JSON | {"Content-Length": "100"})
        await line.send_bytes(b'{"blueprint":"assistant"}')
    assert (await bare.http.get("/healthz")).status_code == 200
    assert await bare.count_stored_events() == before


async def test_body_with_content_encoding_is_refused_with_415(bare: RunningGateway) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    for encoding in ("gzip", "br", "deflate, gzip", "nonsense"):
        headers = build_length_header(bomb) | {"Content-Encoding": encoding}
        answer = await post_raw(bare.address, "/v1/sessions", bomb, headers)
        assert (answer.status, answer.parse_json()["code"]) == (415, "unsupported-encoding"), (
            encoding
        )
        assert answer.parse_json()["field"] == "Content-Encoding"


async def test_body_without_json_content_type_is_refused_with_415(bare: RunningGateway) -> None:
    body = build_form(100)
    kinds: list[dict[str, str]] = [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {},
    ]
    for kind in kinds:
        headers = {"Content-Length": str(len(body))} | kind
        answer = await post_raw(bare.address, "/v1/sessions", body, headers)
        assert (answer.status, answer.parse_json()["code"]) == (415, "unsupported-media"), kind
        assert answer.parse_json()["fix"] == "send JSON with Content-Type: application/json"
    json_headers = {"Content-Type": "Application/JSON; charset=utf-8", "Content-Length": "100"}
    assert (await post_raw(bare.address, "/v1/sessions", body, json_headers)).status == 201


async def test_connection_serves_several_requests_in_sequence(bare: RunningGateway) -> None:
    async with open_raw_connection(bare.address) as line:
        for _ in range(3):
            body = build_form(100)
            await line.send_head("POST", "/v1/sessions", build_length_header(body))
            await line.send_bytes(body)
            answer = await line.read_response()
            assert answer.status == 201
            await line.send_head("GET", f"/v1/sessions/{answer.parse_json()['session']}", {})
            assert (await line.read_response()).status == 200


async def test_turn_larger_than_an_event_is_refused_with_413(bare: RunningGateway) -> None:
    async with bare.start_another_gateway(body_limit=4_000_000) as stand:
        session = await stand.open_session("assistant")
        body = json.dumps({"text": "x" * 1_000_000}).encode()
        url = f"/v1/sessions/{session}/turns"
        answer = await stand.http.post(url, content=body, headers=JSON)
        assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
        assert (await stand.fetch_json(f"/v1/sessions/{session}"))["sequence"] == 1
