"""Uploads and downloads of pictures, recordings and files over HTTP."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.services.gateway.gateway_service import (
    MemoryBackend,
    RunningGateway,
    open_backend,
    start_service,
)
from tests.services.gateway.requests.raw_http import open_raw_connection
from tests.services.media.media_samples import PNG, SAMPLES, make_png
from turnlog.client import AsyncTurnlogClient, InvalidRequest, NotFound, TurnlogClient
from turnlog.events.content import compute_digest
from turnlog.services.media.media_use_cases import MAX_TENANT_UPLOADS

IMAGE = {"Content-Type": "image/png"}


async def stream_pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for begin in range(0, len(data), size):
        yield data[begin : begin + size]


def build_path(digest: str) -> str:
    return f"/v1/blobs/{quote(digest, safe='')}"


def require_problem(answer: httpx.Response, *expected: object) -> None:
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["field"]) == expected, problem
    assert problem["fix"]


@pytest.mark.parametrize("media_type", SAMPLES)
async def test_upload_is_downloaded_as_it_was_with_safe_headers(
    idle: RunningGateway, media_type: str
) -> None:
    data = SAMPLES[media_type]
    answer = await idle.http.post("/v1/blobs", content=data, headers={"Content-Type": media_type})
    digest = compute_digest(data)
    assert answer.status_code == 201, answer.text
    assert answer.json() == {"digest": digest, "size": len(data), "media_type": media_type}
    assert answer.headers["Location"] == build_path(digest)
    read = await idle.http.get(answer.headers["Location"])
    assert (read.status_code, read.content) == (200, data)
    assert read.headers["Content-Type"].partition(";")[0] == media_type
    assert read.headers["X-Content-Type-Options"] == "nosniff"
    assert read.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    shown = "inline" if media_type.startswith("image/") else "attachment"
    assert read.headers["Content-Disposition"] == shown
    assert "immutable" in read.headers["Cache-Control"]
    again = await idle.http.get(
        answer.headers["Location"], headers={"If-None-Match": read.headers["ETag"]}
    )
    assert (again.status_code, again.content) == (304, b"")


async def test_head_says_whether_an_upload_is_complete(idle: RunningGateway) -> None:
    data = make_png(700_000)
    path = build_path(compute_digest(data))
    assert (await idle.http.head(path)).status_code == 404
    await idle.http.post("/v1/blobs", content=data, headers=IMAGE)
    found = await idle.http.head(path)
    assert (found.status_code, found.headers["Content-Length"]) == (200, "700000")


async def test_unknown_or_invalid_digest_is_refused(idle: RunningGateway) -> None:
    for digest in (compute_digest("never uploaded"), "hmac-sha256:" + "0" * 64):
        unknown = await idle.http.get(build_path(digest))
        require_problem(unknown, 404, "unknown-blob", "digest")
    for digest in ("sha256:1", "x", "sha256:" + "G" * 64, "hmac-sha256:0"):
        require_problem(await idle.http.get(build_path(digest)), 422, "invalid", "digest")


async def test_text_of_a_prompt_cannot_be_downloaded(idle: RunningGateway) -> None:
    digest = await idle.backend.blobs.put_blob(idle.tenant, b"You are a clerk.")
    require_problem(await idle.http.get(build_path(digest)), 404, "unknown-blob", "digest")


async def test_upload_of_another_tenant_is_not_found(idle: RunningGateway) -> None:
    stored = await idle.http.post("/v1/blobs", content=PNG, headers=IMAGE)
    async with idle.start_another_gateway(tenant=f"{idle.tenant}-2") as other:
        answer = await other.http.get(build_path(stored.json()["digest"]))
    require_problem(answer, 404, "unknown-blob", "digest")


async def test_damaged_upload_is_not_downloaded(fresh_tenant: str, tmp_path: Path) -> None:
    backend = MemoryBackend()
    async with start_service(backend, fresh_tenant, tmp_path, working=False) as idle:
        digest = (await idle.http.post("/v1/blobs", content=PNG, headers=IMAGE)).json()["digest"]
        backend.media.media[fresh_tenant, digest] = b"other"
        answer = await idle.http.get(build_path(digest))
        assert (answer.status_code, answer.json()["code"]) == (500, "corrupt")


@pytest.mark.parametrize(
    ("data", "headers", "query", "expected"),
    [
        (b"<script>alert(1)</script>", IMAGE, "", (422, "media-type-differs", "Content-Type")),
        (PNG, {"Content-Type": "image/jpeg"}, "", (422, "media-type-differs", "Content-Type")),
        (PNG, {"Content-Type": "text/html"}, "", (415, "unsupported-media", "Content-Type")),
        (PNG, {"Content-Type": "application/json"}, "", (415, "unsupported-media", "Content-Type")),
        (b"MZ\x90\0\3\0\0\0\4\0\0\0\xff\xff\0\0", {}, "", (415, "unsupported-media", "body")),
        (PNG[:6], IMAGE, "", (415, "unsupported-media", "body")),
        (b"", IMAGE, "", (422, "invalid", "body")),
        (
            PNG,
            IMAGE | {"Content-Encoding": "gzip"},
            "",
            (415, "unsupported-encoding", "Content-Encoding"),
        ),
        (PNG, IMAGE, f"?digest={compute_digest('other')}", (422, "digest-differs", "digest")),
        (PNG, IMAGE, "?digest=sha256:1", (422, "invalid", "digest")),
        (PNG, IMAGE, "?name=a.png", (422, "invalid", "name")),
    ],
)
async def test_upload_that_is_not_what_it_says_is_refused_and_leaves_nothing(
    idle: RunningGateway,
    data: bytes,
    headers: dict[str, str],
    query: str,
    expected: tuple[int, str, str],
) -> None:
    answer = await idle.http.post(f"/v1/blobs{query}", content=data, headers=headers)
    require_problem(answer, *expected)
    assert (await idle.http.head(build_path(compute_digest(data)))).status_code == 404


async def test_upload_at_the_size_limit_is_stored_and_one_byte_more_gets_413(
    idle: RunningGateway,
) -> None:
    async with idle.start_another_gateway(max_part_bytes=600_000) as stand:
        stored = await stand.http.post("/v1/blobs", content=make_png(600_000), headers=IMAGE)
        assert stored.status_code == 201
        large = make_png(600_001)
        for content in (large, stream_pieces(large, 50_000)):
            answer = await stand.http.post("/v1/blobs", content=content, headers=IMAGE)
            assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
        assert (await stand.http.head(build_path(compute_digest(large)))).status_code == 404


async def test_endless_upload_gets_413_and_its_connection_is_closed(idle: RunningGateway) -> None:
    async with (
        idle.start_another_gateway(max_part_bytes=100_000) as stand,
        open_raw_connection(stand.address) as line,
    ):
        await line.send_head("POST", "/v1/blobs", IMAGE | {"Transfer-Encoding": "chunked"})
        piece = make_png(65_536)
        await line.send_bytes(*[b"%x\r\n%b\r\n" % (len(piece), piece)] * 140)
        answer = await line.read_response()
        assert (answer.status, answer.headers["connection"]) == (413, "close")


async def test_upload_byte_by_byte_is_stored(idle: RunningGateway) -> None:
    data = make_png(5_000)
    answer = await idle.http.post("/v1/blobs", content=stream_pieces(data, 1), headers=IMAGE)
    assert answer.json()["digest"] == compute_digest(data)


async def test_upload_that_stops_gets_408(idle: RunningGateway) -> None:
    async with (
        idle.start_another_gateway(body_seconds=0.2) as stand,
        open_raw_connection(stand.address) as line,
    ):
        await line.send_head("POST", "/v1/blobs", IMAGE | {"Content-Length": "1000"})
        await line.send_bytes(PNG)
        answer = await line.read_response()
        assert (answer.status, answer.parse_json()["code"]) == (408, "too-slow")
        assert await line.is_closed()


async def test_client_that_disconnects_within_an_upload_leaves_nothing(
    idle: RunningGateway,
) -> None:
    data = make_png(100_000)
    async with open_raw_connection(idle.address) as line:
        await line.send_head("POST", "/v1/blobs", IMAGE | {"Content-Length": "100000"})
        await line.send_bytes(data[:50_000])
    assert (await idle.http.get("/healthz")).status_code == 200
    for digest in (compute_digest(data), compute_digest(data[:50_000])):
        assert (await idle.http.head(build_path(digest))).status_code == 404


async def break_off_upload(idle: RunningGateway, data: bytes, sent: int) -> str:
    """Upload the beginning of bytes, break the connection, and return the offset that is known."""
    path = f"/v1/blobs?digest={quote(compute_digest(data), safe='')}"
    async with open_raw_connection(idle.address) as line:
        await line.send_head("POST", path, IMAGE | {"Content-Length": str(len(data))})
        await line.send_bytes(data[:sent])
    found = await idle.http.head(build_path(compute_digest(data)))
    while "Upload-Offset" not in found.headers:  # until the gateway has seen that it broke
        found = await idle.http.head(build_path(compute_digest(data)))
    assert found.status_code == 404
    return str(found.headers["Upload-Offset"])


async def test_upload_whose_connection_broke_goes_on_where_it_was(idle: RunningGateway) -> None:
    data = make_png(700_000)
    offset = await break_off_upload(idle, data, 550_000)
    assert 0 < int(offset) <= 550_000
    path = f"/v1/blobs?digest={compute_digest(data)}"
    wrong = await idle.http.post(path, content=b"x", headers=IMAGE | {"Upload-Offset": "1"})
    require_problem(wrong, 409, "offset-differs", "Upload-Offset")
    assert wrong.json()["detail"] == f"{offset} bytes of this upload are here"
    rest = data[int(offset) :]
    stored = await idle.http.post(path, content=rest, headers=IMAGE | {"Upload-Offset": offset})
    assert (stored.status_code, stored.json()["size"]) == (201, 700_000), stored.text
    assert (await idle.http.get(build_path(compute_digest(data)))).content == data
    again = await idle.http.post(path, content=rest, headers=IMAGE | {"Upload-Offset": offset})
    require_problem(again, 409, "offset-differs", "Upload-Offset")


async def test_upload_with_another_rest_is_refused_and_begins_again(idle: RunningGateway) -> None:
    data = make_png(90_001)
    offset = await break_off_upload(idle, data, 50_000)
    path = f"/v1/blobs?digest={compute_digest(data)}"
    other = await idle.http.post(path, content=b"x", headers=IMAGE | {"Upload-Offset": offset})
    require_problem(other, 422, "digest-differs", "digest")
    found = await idle.http.head(build_path(compute_digest(data)))
    assert (found.status_code, "Upload-Offset" in found.headers) == (404, False)
    assert (await idle.http.post(path, content=data, headers=IMAGE)).status_code == 201


async def test_upload_without_a_digest_goes_on_nowhere(idle: RunningGateway) -> None:
    answer = await idle.http.post("/v1/blobs", content=PNG, headers=IMAGE | {"Upload-Offset": "5"})
    require_problem(answer, 422, "invalid", "Upload-Offset")


async def test_more_uploads_at_once_than_there_are_slots_get_429_and_pass_later(
    idle: RunningGateway,
) -> None:
    gate, begun = asyncio.Event(), asyncio.Semaphore(0)

    async def wait_in_the_middle() -> AsyncIterator[bytes]:
        yield PNG
        begun.release()
        await gate.wait()
        yield b"end"

    async with httpx.AsyncClient(base_url=idle.address, timeout=30) as http:
        uploads = [
            asyncio.create_task(http.post("/v1/blobs", content=wait_in_the_middle(), headers=IMAGE))
            for _ in range(MAX_TENANT_UPLOADS)
        ]
        for _ in uploads:
            await begun.acquire()
        while True:
            answer = await http.post("/v1/blobs", content=PNG, headers=IMAGE)
            if answer.status_code == 429:
                break
        assert (answer.json()["code"], answer.headers["Retry-After"]) == ("busy", "5")
        gate.set()
        stored = await asyncio.gather(*uploads)
        assert {each.status_code for each in stored} == {201}
        assert (await http.post("/v1/blobs", content=PNG, headers=IMAGE)).status_code == 201


async def test_clients_upload_a_file_once_and_fetch_it(
    idle: RunningGateway, tmp_path: Path
) -> None:
    file = tmp_path / "chart.png"
    file.write_bytes(make_png(600_000))
    async with AsyncTurnlogClient(idle.address) as client:
        stored = await client.upload_blob(file, "image/png")
        assert await client.fetch_blob(stored.digest) == file.read_bytes()
        assert await client.find_blob(stored.digest) == stored
        assert await client.find_blob(compute_digest("nothing")) is None
        with pytest.raises(NotFound, match="unknown-blob"):
            await client.fetch_blob(compute_digest("nothing"))
        with pytest.raises(InvalidRequest, match="media-type-differs"):
            await client.upload_blob(PNG, "image/gif")

    def upload_again() -> None:
        with TurnlogClient(idle.address) as blocking:
            assert blocking.upload_blob(file.read_bytes()) == stored
            assert blocking.fetch_blob(stored.digest) == file.read_bytes()

    await asyncio.to_thread(upload_again)


async def test_client_uploads_nothing_that_is_stored_already(
    idle: RunningGateway,
) -> None:
    data = make_png(50_000)
    async with AsyncTurnlogClient(idle.address) as client:
        stored = await client.upload_blob(data)
    async with (
        idle.start_another_gateway(max_part_bytes=1024) as narrow,
        AsyncTurnlogClient(narrow.address) as client,
    ):
        # An upload would be refused here.
        assert await client.upload_blob(data) == stored


async def test_gateways_that_race_for_the_last_room_never_pass_the_limit_together(
    nats_url: str, fresh_tenant: str, tmp_path: Path
) -> None:
    """Each has its own connection to one nats-server, and nothing but the log between them."""
    size, rounds, numbers = len(PNG) + 4, 6, count()
    one_folder, other_folder = tmp_path / "one", tmp_path / "other"
    one_folder.mkdir()
    other_folder.mkdir()
    async with (
        open_backend(nats_url) as first,
        open_backend(nats_url) as second,
        start_service(first, fresh_tenant, one_folder, working=False) as one,
        start_service(second, fresh_tenant, other_folder, working=False) as two,
    ):

        async def upload(gateway: RunningGateway) -> int:
            picture = PNG + next(numbers).to_bytes(4)
            answer = await gateway.http.post("/v1/blobs", content=picture, headers=IMAGE)
            return answer.status_code

        for number in range(1, rounds + 1):
            await one.http.put("/v1/media-limit", json={"limit": number * size})
            uploads = await asyncio.gather(*map(upload, (one, two) * 2))
            assert sorted(uploads) == [201, 507, 507, 507], number
            shown = (await two.http.get("/v1/media-limit")).json()
            assert (shown["stored"], shown["items"]) == (number * size, number)
            assert (shown["left"], shown["reserved"]) == (0, 0)
        stored = [item.size async for item in second.media.iterate_media(fresh_tenant)]
        assert stored == [size] * rounds


async def test_upload_past_the_limit_of_the_tenant_is_refused_and_the_limit_is_shown(
    tmp_path: Path,
) -> None:
    async with start_service(MemoryBackend(), "t", tmp_path) as gateway:
        empty = (await gateway.http.get("/v1/media-limit")).json()
        assert (empty["limit"], empty["stored"], empty["left"]) == (None, None, None)
        await gateway.http.post("/v1/blobs", content=PNG, headers=IMAGE)
        room = len(PNG) + 100
        set_limit = await gateway.http.put("/v1/media-limit", json={"limit": room})
        assert (set_limit.status_code, set_limit.json()["left"]) == (200, 100)
        answer = await gateway.http.post("/v1/blobs", content=make_png(101), headers=IMAGE)
        assert (answer.status_code, answer.json()["code"]) == (507, "media-limit")
        assert f"of {room:,} bytes" in answer.json()["detail"]
        assert "turnlog quota media" in answer.json()["fix"]
        encoded = b64encode(make_png(101)).decode()
        opened = await gateway.http.post("/v1/sessions", json={"blueprint": "assistant"})
        turn = {"parts": [{"type": "image", "data": encoded}, {"type": "text", "text": "What?"}]}
        path = f"/v1/sessions/{opened.json()['session']}/turns"
        assert (await gateway.http.post(path, json=turn)).status_code == 507
        assert (await gateway.http.post("/v1/blobs", content=PNG, headers=IMAGE)).is_success
        listed = (await gateway.http.get("/v1/quotas")).json()["media"]
        assert (listed["limit"], listed["stored"], listed["items"]) == (room, len(PNG), 1)
