"""What a process reads and holds of pictures, recordings and files."""

from __future__ import annotations

import pytest

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt, TooLarge
from turnlog.events.store.media_chunks import iterate_bytes
from turnlog.events.store.memory_log import MemoryMediaStore
from turnlog.services.caches.media_cache import MediaReader


async def store_media(store: MemoryMediaStore, data: bytes) -> Digest:
    return (await store.put_media("t", iterate_bytes(data), most_bytes=1_000)).digest


async def test_prompt_with_too_many_bytes_is_refused_before_more_of_them_are_read() -> None:
    store = MemoryMediaStore()
    first, second, third = [await store_media(store, b"%d" % each * 40) for each in range(3)]
    reader = MediaReader(store)
    assert len(await reader.read_media("t", [first, second], most_bytes=80)) == 2
    del store.media["t", third]
    with pytest.raises(TooLarge, match="the media of the prompt has 120 bytes, the limit is 80"):
        await reader.read_media("t", [first, second, second, third], most_bytes=80)


async def test_item_counts_as_often_as_it_is_sent() -> None:
    store = MemoryMediaStore()
    digest = await store_media(store, b"x" * 40)
    reader = MediaReader(store)
    assert await reader.read_media("t", [digest] * 2, most_bytes=80) == {digest: b"x" * 40}
    with pytest.raises(TooLarge):
        await reader.read_media("t", [digest] * 3, most_bytes=80)


async def test_erasure_drops_what_is_in_memory_and_the_rest_is_read_again() -> None:
    store = MemoryMediaStore()
    gone, left = [await store_media(store, each * 40) for each in (b"x", b"y")]
    reader = MediaReader(store, max_bytes=80)
    await reader.read_media("t", [gone, left])
    del store.media["t", gone]
    reader.forget_media()
    with pytest.raises(Corrupt):
        await reader.read_media("t", [gone])
    for _ in range(2):
        assert await reader.read_media("t", [left]) == {left: b"y" * 40}
        store.media.pop(("t", left), None)
