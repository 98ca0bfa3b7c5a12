"""Pictures, recordings and files in the store: in memory, and in chunks on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.events.conftest import ContractStore
from tests.support.servers.store_damage import StoredStream
from turnlog.events.content import compute_digest
from turnlog.events.errors import AlteredMedia, Corrupt, Refused, StreamHole, TooLarge
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.js_api import fetch_stream_info
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.store.media_chunks import (
    CHUNK_BYTES,
    ChunkList,
    StoredMedia,
    iterate_bytes,
)
from turnlog.events.store.memory_log import MemoryMediaStore
from turnlog.events.store.ports import MediaStore
from turnlog.events.subjects import BLOBS_STREAM, build_blob_subject, build_media_subject
from turnlog.services.audit.record_scan import scan_blobs
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

MOST_BYTES = 8 * CHUNK_BYTES


def make_bytes(size: int) -> bytes:
    """Return bytes whose chunks differ from each other."""
    return b"".join(number.to_bytes(4) for number in range(size // 4 + 1))[:size]


async def put(media: MediaStore, tenant: str, data: bytes) -> StoredMedia:
    return await media.put_media(tenant, iterate_bytes(data), most_bytes=MOST_BYTES)


async def cut_into_pieces(data: bytes, size: int) -> AsyncGenerator[bytes]:
    for begin in range(0, len(data), size):
        yield data[begin : begin + size]


async def repeat_forever(piece: bytes) -> AsyncGenerator[bytes]:
    while True:
        yield piece


async def count_messages(jetstream: JetStreamClient, tenant: str) -> dict[str, int]:
    """Return the messages that a tenant has in the stream of blobs, by subject."""
    found = await jetstream.connection.nc.jetstream().stream_info(
        BLOBS_STREAM, subjects_filter=f"blob.{tenant}.>"
    )
    return found.state.subjects or {}


@pytest.mark.parametrize(
    "size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, MOST_BYTES]
)
async def test_media_is_found_and_read_under_the_digest_of_its_bytes(
    store: ContractStore, fresh_tenant: str, size: int
) -> None:
    data = make_bytes(size)
    stored = await put(store.media, fresh_tenant, data)
    assert stored == StoredMedia(compute_digest(data), size)
    assert await store.media.find_media(fresh_tenant, stored.digest) == stored
    assert await store.media.get_media(fresh_tenant, stored.digest) == data


async def test_all_media_of_a_tenant_are_listed_with_their_sizes_and_no_other_blobs(
    store: ContractStore, fresh_tenant: str
) -> None:
    sizes = (0, 1, 2 * CHUNK_BYTES + 1)
    stored = {await put(store.media, fresh_tenant, make_bytes(size)) for size in sizes}
    await put(store.media, f"{fresh_tenant}-other", make_bytes(5))
    await store.blobs.put_blob(fresh_tenant, b"You are a clerk.")
    listed = [each async for each in store.media.iterate_media(fresh_tenant)]
    assert (len(listed), set(listed)) == (3, stored)


@pytest.mark.parametrize("piece", [1, 7, CHUNK_BYTES - 1, CHUNK_BYTES + 1, 5 * CHUNK_BYTES])
async def test_pieces_of_any_size_give_the_same_media(
    store: ContractStore, fresh_tenant: str, piece: int
) -> None:
    data = make_bytes(piece * 5 % (3 * CHUNK_BYTES) + 11)
    stored = await store.media.put_media(
        fresh_tenant, cut_into_pieces(data, piece), most_bytes=MOST_BYTES
    )
    assert stored.digest == compute_digest(data)
    assert await store.media.get_media(fresh_tenant, stored.digest) == data


async def test_media_is_read_in_chunks_too(store: ContractStore, fresh_tenant: str) -> None:
    data = make_bytes(2 * CHUNK_BYTES + 5)
    digest = (await put(store.media, fresh_tenant, data)).digest
    chunks = [chunk async for chunk in store.media.stream_media(fresh_tenant, digest)]
    assert [len(chunk) for chunk in chunks] == [CHUNK_BYTES, CHUNK_BYTES, 5]
    assert b"".join(chunks) == data


async def test_unknown_media_is_not_found_and_reading_it_raises_corrupt(
    store: ContractStore, fresh_tenant: str
) -> None:
    digest = compute_digest("nothing")
    assert await store.media.find_media(fresh_tenant, digest) is None
    with pytest.raises(Corrupt, match=f"media {digest}: it is gone"):
        await store.media.get_media(fresh_tenant, digest)


async def test_media_belongs_to_its_tenant_only(store: ContractStore, fresh_tenant: str) -> None:
    digest = (await put(store.media, fresh_tenant, b"secret")).digest
    assert await store.media.find_media(f"{fresh_tenant}-2", digest) is None
    with pytest.raises(Corrupt):
        await store.media.get_media(f"{fresh_tenant}-2", digest)


async def test_text_of_a_prompt_is_no_media(store: ContractStore, fresh_tenant: str) -> None:
    digest = await store.blobs.put_blob(fresh_tenant, b"a prompt")
    assert await store.media.find_media(fresh_tenant, digest) is None


async def test_upload_over_the_limit_is_refused_as_soon_as_it_is(
    store: ContractStore, fresh_tenant: str
) -> None:
    with pytest.raises(TooLarge) as refusal:
        await store.media.put_media(
            fresh_tenant, repeat_forever(make_bytes(1000)), most_bytes=MOST_BYTES
        )
    assert MOST_BYTES < refusal.value.size <= MOST_BYTES + 1000


async def test_upload_of_other_bytes_than_expected_is_refused(
    store: ContractStore, fresh_tenant: str
) -> None:
    expected = compute_digest("what was announced")
    with pytest.raises(Refused, match="digest-differs"):
        await store.media.put_media(
            fresh_tenant, iterate_bytes(b"other"), most_bytes=MOST_BYTES, expected=expected
        )
    for digest in (expected, compute_digest("other")):
        assert await store.media.find_media(fresh_tenant, digest) is None


async def test_refused_upload_leaves_no_message(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    data = make_bytes(4 * CHUNK_BYTES)
    with pytest.raises(TooLarge):
        await jetstream.media.put_media(fresh_tenant, iterate_bytes(data), most_bytes=len(data) - 1)
    with pytest.raises(Refused):
        await jetstream.media.put_media(
            fresh_tenant,
            iterate_bytes(data),
            most_bytes=MOST_BYTES,
            expected=compute_digest("other"),
        )
    assert await count_messages(jetstream, fresh_tenant) == {}


async def test_uploads_of_the_same_bytes_at_once_store_each_message_once(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    data = make_bytes(3 * CHUNK_BYTES + 1)
    stored = await asyncio.gather(*(put(jetstream.media, fresh_tenant, data) for _ in range(5)))
    assert set(stored) == {StoredMedia(compute_digest(data), len(data))}
    messages = await count_messages(jetstream, fresh_tenant)
    assert set(messages.values()) == {1}
    assert len(messages) == 5
    assert await jetstream.media.get_media(fresh_tenant, stored[0].digest) == data


async def test_reading_goes_on_while_the_same_bytes_are_uploaded_again(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    data = make_bytes(4 * CHUNK_BYTES)
    digest = (await put(jetstream.media, fresh_tenant, data)).digest
    read = bytearray()
    async with aclosing(jetstream.media.stream_media(fresh_tenant, digest)) as chunks:
        async for chunk in chunks:
            read += chunk
            assert (await put(jetstream.media, fresh_tenant, data)).digest == digest
    assert read == data


async def test_chunks_that_a_crash_left_are_no_media_and_are_used_by_the_next_upload(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    data = make_bytes(3 * CHUNK_BYTES)
    await jetstream.blobs.put_blob(fresh_tenant, data[:CHUNK_BYTES])
    await jetstream.blobs.put_blob(fresh_tenant, data[CHUNK_BYTES : 2 * CHUNK_BYTES])
    assert await jetstream.media.find_media(fresh_tenant, compute_digest(data)) is None
    digest = (await put(jetstream.media, fresh_tenant, data)).digest
    assert await jetstream.media.get_media(fresh_tenant, digest) == data
    assert set((await count_messages(jetstream, fresh_tenant)).values()) == {1}


async def test_list_of_chunks_that_was_stored_later_does_not_replace_the_first(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    data = make_bytes(CHUNK_BYTES + 1)
    digest = (await put(jetstream.media, fresh_tenant, data)).digest
    js = jetstream.connection.nc.jetstream()
    await js.publish(build_media_subject(fresh_tenant, digest), b'{"size":0,"chunks":[]}')
    assert await jetstream.media.get_media(fresh_tenant, digest) == data


@pytest.mark.parametrize(
    ("stored", "detail"),
    [
        (b"no list", "the list of its chunks cannot be read"),
        (b'{"size":-1,"chunks":["x"]}', "the list of its chunks cannot be read"),
        (b'{"size":0,"chunks":[]}', "its chunks are those of other bytes"),
    ],
)
async def test_altered_list_of_chunks_raises_altered_media(
    jetstream: JetStreamClient, fresh_tenant: str, stored: bytes, detail: str
) -> None:
    digest = compute_digest("what it was")
    await jetstream.connection.nc.jetstream().publish(
        build_media_subject(fresh_tenant, digest), stored
    )
    with pytest.raises(AlteredMedia, match=detail):
        await jetstream.media.get_media(fresh_tenant, digest)


async def test_altered_chunk_raises_altered_media_before_its_bytes_are_given_out(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    chunks = (await jetstream.blobs.put_blob(fresh_tenant, b"first"), compute_digest("second"))
    js = jetstream.connection.nc.jetstream()
    await js.publish(build_blob_subject(fresh_tenant, chunks[1]), b"Second")
    digest = compute_digest("firstsecond")
    chunk_list = ChunkList(size=11, chunks=chunks)
    subject = build_media_subject(fresh_tenant, digest)
    await js.publish(subject, chunk_list.model_dump_json().encode())
    async with aclosing(jetstream.media.stream_media(fresh_tenant, digest)) as read:
        assert await anext(read) == b"first"
        with pytest.raises(AlteredMedia, match="the bytes of chunk 2 of 2 have changed"):
            await anext(read)
    found = [finding async for finding in scan_blobs(jetstream.blobs, fresh_tenant)]
    assert len(found) == 1


@pytest.mark.slow("a nats-server stops and starts")
async def test_media_outlives_a_restart_and_a_damaged_chunk_is_named(tmp_path: Path) -> None:
    data, other = make_bytes(2 * CHUNK_BYTES), make_bytes(CHUNK_BYTES)[::-1]
    async with (
        await NatsServer.start(NatsConfig(data_dir=tmp_path)) as server,
        open_client(server.url, StreamOptions()) as on,
    ):
        digest = (await put(on.media, "t", data)).digest
        whole = (await put(on.media, "t", other)).digest
        config = await fetch_stream_info(on.connection, BLOBS_STREAM)
        assert config.message_count == 5
    StoredStream(tmp_path, BLOBS_STREAM).flip_byte(2)
    async with (
        await NatsServer.start(NatsConfig(data_dir=tmp_path)) as server,
        open_client(server.url, StreamOptions()) as on,
    ):
        assert await on.media.get_media("t", whole) == other
        with pytest.raises(Corrupt, match=f"media {digest}: chunk 2 of 2 is gone"):
            await on.media.get_media("t", digest)
        holes = [part async for part in scan_blobs(on.blobs, "t") if isinstance(part, StreamHole)]
        assert [(hole.first, hole.last) for hole in holes] == [(2, 2)]


async def test_others_run_between_two_chunks_of_an_upload() -> None:
    runs = 0

    async def count_runs() -> None:
        nonlocal runs
        while True:
            runs += 1
            await asyncio.sleep(0)

    async def one_piece() -> AsyncGenerator[bytes]:
        yield make_bytes(MOST_BYTES)

    other = asyncio.create_task(count_runs())
    await MemoryMediaStore().put_media("t", one_piece(), most_bytes=MOST_BYTES)
    other.cancel()
    assert runs >= MOST_BYTES // CHUNK_BYTES


async def test_stray_message_under_the_digest_of_a_file_does_not_keep_it_out(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    digest = compute_digest(b"a picture")
    js = jetstream.connection.nc.jetstream()
    await js.publish(build_media_subject(fresh_tenant, digest), b'{"type": "an answer"}')
    for _ in range(2):
        stored = await jetstream.media.put_media(
            fresh_tenant, iterate_bytes(b"a picture"), most_bytes=100
        )
        assert stored.digest == digest
    assert await jetstream.media.get_media(fresh_tenant, digest) == b"a picture"
