"""Request bodies: size, speed and encoding, whatever the headers claim."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from tests.services.gateway.raw_http import sent, wire
from tests.services.gateway.stand import Stand

LIMIT = 4_096
pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON = {"Content-Type": "application/json"}
CHUNKED = JSON | {"Transfer-Encoding": "chunked"}


def form_of(size: int) -> bytes:
    """Return a request body of `size` bytes that opens a session."""
    form = b'{"blueprint":"assistant"}'
    return form + b" " * (size - len(form))


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def length(body: bytes) -> dict[str, str]:
    return JSON | {"Content-Length": str(len(body))}


@pytest.mark.promise("P14")
async def test_a_body_of_the_limit_is_taken_and_one_byte_more_is_not(bare: Stand) -> None:
    async with bare.another_gateway(body_limit=LIMIT) as stand:
        for size, status in ((LIMIT - 1, 201), (LIMIT, 201), (LIMIT + 1, 413)):
            body = form_of(size)
            answer = await sent(stand.address, "/v1/sessions", body, length(body))
            assert answer.status == status, size
        said = answer.json()
        assert (said["code"], said["field"]) == ("too-large", "body")
        assert said["fix"] == f"send at most {LIMIT} bytes"


async def test_a_checkpoint_may_be_larger_than_anything_else_that_is_sent(bare: Stand) -> None:
    body = b'{"sessions":' + b" " * bare.settings.import_limit + b"{}}"
    answer = await sent(bare.address, "/v1/verify", body, length(body))
    assert (answer.status, answer.json()["code"]) == (422, "invalid")


async def test_bytes_are_counted_where_no_length_was_announced(bare: Stand) -> None:
    async with bare.another_gateway(body_limit=LIMIT) as stand:
        for size, status in ((LIMIT, 201), (LIMIT + 1, 413)):
            async with wire(stand.address) as line:
                await line.begin("POST", "/v1/sessions", CHUNKED)
                body = form_of(size)
                await line.send(chunk(body[:100]), chunk(body[100:]), b"0\r\n\r\n")
                assert (await line.answer()).status == status


async def test_a_body_without_end_is_answered_and_its_connection_closed(bare: Stand) -> None:
    async with bare.another_gateway(body_limit=LIMIT) as stand, wire(stand.address) as line:
        await line.begin("POST", "/v1/sessions", CHUNKED)
        piece = chunk(b" " * 65_536)
        await line.send(*[piece] * 129)
        answer = await line.answer()
        assert (answer.status, answer.headers["connection"]) == (413, "close")


async def test_a_client_that_sends_too_slowly_is_told_and_cut(bare: Stand) -> None:
    async with bare.another_gateway(body_seconds=0.2) as stand, wire(stand.address) as line:
        await line.begin("POST", "/v1/sessions", JSON | {"Content-Length": "100"})
        await line.send(b'{"blueprint":')
        answer = await line.answer()
        assert (answer.status, answer.json()["code"]) == (408, "too-slow")
        assert answer.headers["connection"] == "close"
        assert await line.closed()


async def test_a_client_that_sends_a_byte_a_while_has_no_more_time_than_others(
    bare: Stand,
) -> None:
    async with bare.another_gateway(body_seconds=0.3) as stand, wire(stand.address) as line:
        await line.begin("POST", "/v1/sessions", CHUNKED)
        answering = asyncio.create_task(line.answer())
        while not answering.done():
            await line.send(chunk(b" "))
            await asyncio.wait({answering}, timeout=0.02)
        assert (answering.result().status, answering.result().json()["code"]) == (408, "too-slow")


async def test_a_head_that_does_not_come_to_its_end_is_answered_and_cut(bare: Stand) -> None:
    async with bare.another_gateway(body_seconds=0.3) as stand, wire(stand.address) as line:
        await line.send(b"GET /healthz HTTP/1.1\r\nHost: gateway\r\n")
        answering = asyncio.create_task(line.answer())
        while not answering.done():
            await line.send(b"X")
            await asyncio.wait({answering}, timeout=0.02)
        said = answering.result().json()
        assert (said["status"], said["code"], said["field"]) == (408, "too-slow", "head")
        assert await line.closed()


async def test_a_connection_on_which_nothing_comes_is_closed_without_a_word(bare: Stand) -> None:
    async with bare.another_gateway(body_seconds=0.1) as stand, wire(stand.address) as line:
        assert await line.closed()


async def test_a_request_that_takes_longer_than_its_head_may_is_answered(bare: Stand) -> None:
    async with bare.another_gateway(body_seconds=0.1) as stand, wire(stand.address) as line:
        session = await bare.open("assistant")
        body = b'{"text":"Hi"}'
        await line.begin("POST", f"/v1/sessions/{session}/turns?wait=0.4", length(body))
        await line.send(body)
        assert (await line.answer()).status == 202


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


@pytest.mark.parametrize("spelt", NO_HTTP.values(), ids=NO_HTTP.keys())
async def test_what_is_not_http_is_refused_like_everything_else(bare: Stand, spelt: bytes) -> None:
    async with wire(bare.address) as line:
        await line.send(spelt)
        answer = await line.answer()
        assert answer.headers["content-type"] == "application/problem+json"
        said = answer.json()
        assert (answer.status, said["code"], said["field"]) == (400, "bad-request", "head")
        assert said["fix"]
    assert (await bare.http.get("/healthz")).status_code == 200


async def test_a_client_that_goes_away_while_sending_leaves_nothing_behind(bare: Stand) -> None:
    before = await bare.stored()
    async with wire(bare.address) as line:
        await line.begin("POST", "/v1/sessions", JSON | {"Content-Length": "100"})
        await line.send(b'{"blueprint":"assistant"}')
    assert (await bare.http.get("/healthz")).status_code == 200
    assert await bare.stored() == before


async def test_an_encoded_body_is_refused_unread(bare: Stand) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    for encoding in ("gzip", "br", "deflate, gzip", "nonsense"):
        headers = length(bomb) | {"Content-Encoding": encoding}
        answer = await sent(bare.address, "/v1/sessions", bomb, headers)
        assert (answer.status, answer.json()["code"]) == (415, "unsupported-encoding"), encoding
        assert answer.json()["field"] == "Content-Encoding"


async def test_a_body_that_is_not_said_to_be_json_is_refused(bare: Stand) -> None:
    body = form_of(100)
    kinds: list[dict[str, str]] = [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {},
    ]
    for kind in kinds:
        headers = {"Content-Length": str(len(body))} | kind
        answer = await sent(bare.address, "/v1/sessions", body, headers)
        assert (answer.status, answer.json()["code"]) == (415, "unsupported-media"), kind
        assert answer.json()["fix"] == "send JSON with Content-Type: application/json"
    said = {"Content-Type": "Application/JSON; charset=utf-8", "Content-Length": "100"}
    assert (await sent(bare.address, "/v1/sessions", body, said)).status == 201


async def test_a_connection_serves_one_request_after_another(bare: Stand) -> None:
    async with wire(bare.address) as line:
        for _ in range(3):
            body = form_of(100)
            await line.begin("POST", "/v1/sessions", length(body))
            await line.send(body)
            answer = await line.answer()
            assert answer.status == 201
            await line.begin("GET", f"/v1/sessions/{answer.json()['session']}", {})
            assert (await line.answer()).status == 200


async def test_a_turn_larger_than_an_event_may_be_is_refused(bare: Stand) -> None:
    async with bare.another_gateway(body_limit=4_000_000) as stand:
        session = await stand.open("assistant")
        body = json.dumps({"text": "x" * 1_000_000}).encode()
        url = f"/v1/sessions/{session}/turns"
        answer = await stand.http.post(url, content=body, headers=JSON)
        assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
        assert (await stand.get(f"/v1/sessions/{session}"))["sequence"] == 1
