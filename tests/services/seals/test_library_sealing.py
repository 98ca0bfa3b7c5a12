"""A sealed library on a real server: each text under a key of its own, and what stays plain."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.sessions.session_harness import TESTER, SteppingClock
from turnlog.events.codec import decode_knowledge_event
from turnlog.events.content import Digest, compute_digest
from turnlog.events.errors import KeyringMissing, KeysErased, TooLarge
from turnlog.events.jetstream.jetstream_client import (
    JetStreamClient,
    add_keys,
    build_client,
    open_client,
)
from turnlog.events.jetstream.nats_connection import require_keys
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.model.knowledge_events import KNOWLEDGE_FAMILY, KnowledgeAdded, KnowledgeEdited
from turnlog.events.seals.key_ports import SealingKeys
from turnlog.events.seals.keyrings import StaticKeyring
from turnlog.events.seals.leaf_sets import get_library_leaves, name_library_keys
from turnlog.events.seals.sealed_payload import parse_sealed_header
from turnlog.projections.knowledge.knowledge_inputs import EntryInput, PutEntries
from turnlog.projections.library.segment_inputs import AddSegment, EditSegment, SegmentInput
from turnlog.services.command_handling.tenant_histories import LibraryParts
from turnlog.services.knowledge.knowledge_service import KnowledgeService
from turnlog.services.platform.nats_server import NatsConfig, NatsServer
from turnlog.services.seals.library_sealing import LibrarySealing
from turnlog.services.segments.segment_service import SegmentService

KEYRING = StaticKeyring({1: bytes(32)})

TENANT = "t"

KEYS = name_library_keys(KNOWLEDGE_FAMILY)


@dataclass(frozen=True, slots=True)
class Library:
    """The library as one process sees it, which has read nothing yet."""

    client: JetStreamClient
    knowledge: KnowledgeService
    segments: SegmentService

    @property
    def keys(self) -> SealingKeys:
        return require_keys(self.client.connection, "the test")

    async def put_entries(self, *entries: EntryInput) -> tuple[int, int]:
        """Put entries; return how many were added and how many were edited."""
        done = await self.knowledge.handle(TENANT, PutEntries("notes", entries), TESTER)
        return len(done.changes.added), len(done.changes.edited)

    async def list_digests(self) -> list[Digest]:
        """Return the digests by which the texts of the entries are found, in their order."""
        log = self.client.library
        last = await log.read_last_event(TENANT, KNOWLEDGE_FAMILY)
        assert last is not None
        events = await log.read_range(TENANT, KNOWLEDGE_FAMILY, None, last)
        changes = map(decode_knowledge_event, events)
        return [
            entry.digest
            for event in changes
            if isinstance(event, KnowledgeAdded | KnowledgeEdited)
            for entry in event.entries
        ]

    async def read_text(self, digest: Digest) -> str:
        return (await self.client.blobs.get_blob(TENANT, digest)).decode()


def open_library(client: JetStreamClient, *, is_on: bool, has_keyring: bool = True) -> Library:
    connection = add_keys(replace(client.connection, keys=None), KEYRING if has_keyring else None)
    opened = build_client(connection)
    ids = iter(range(1_000_000))
    parts = LibraryParts(
        log=opened.library,
        blobs=opened.blobs,
        clock=SteppingClock(),
        create_id=lambda: f"id-{next(ids)}",
        source="/test",
        sealing=LibrarySealing(connection.keys, opened.blobs, is_on=is_on),
    )
    return Library(opened, KnowledgeService(parts), SegmentService(parts))


@pytest_asyncio.fixture
async def client(tmp_path: Path) -> AsyncIterator[JetStreamClient]:
    config = NatsConfig(data_dir=tmp_path / "nats")
    async with (
        await NatsServer.start(config) as server,
        open_client(server.url, StreamOptions(), keyring=KEYRING) as opened,
    ):
        yield opened


def build_entry(number: int, text: str = "") -> EntryInput:
    return EntryInput(id=f"e{number}", text=text or f"text {number}", title=f"title {number}")


async def test_each_entry_of_an_import_is_under_a_key_of_its_own(client: JetStreamClient) -> None:
    library = open_library(client, is_on=True)
    assert await library.put_entries(*map(build_entry, range(3))) == (3, 0)
    digests = await library.list_digests()
    assert [await library.read_text(each) for each in digests] == ["text 0", "text 1", "text 2"]
    await library.keys.remove_leaves(TENANT, KEYS, frozenset({2}), 0)
    left = open_library(client, is_on=True)
    assert await left.list_digests() == digests
    assert await left.read_text(digests[0]) == "text 0"
    assert await left.read_text(digests[2]) == "text 2"
    with pytest.raises(KeysErased):
        await left.read_text(digests[1])


async def test_entry_that_is_put_again_is_compared_by_its_text(client: JetStreamClient) -> None:
    await open_library(client, is_on=True).put_entries(build_entry(1), build_entry(2))
    again = open_library(client, is_on=True)
    assert await again.put_entries(build_entry(1), build_entry(2, "edited")) == (0, 1)
    assert await again.read_text((await again.list_digests())[-1]) == "edited"


async def test_text_that_came_too_late_for_its_sequence_can_be_read_by_nobody(
    client: JetStreamClient,
) -> None:
    slow, fast = open_library(client, is_on=True), open_library(client, is_on=True)
    await slow.put_entries(build_entry(1))
    await fast.put_entries(build_entry(2))
    await slow.put_entries(build_entry(3))  # It decides on what it knows, and is conflicted.
    first, second, third = await slow.list_digests()
    keys = slow.keys
    stored = [
        raw.stored
        async for bulk in client.blobs.stream_raw_blobs(0)
        for raw in bulk
        if raw.stored.startswith(b"turnlog-sealed 1 " + KEYS.encode())
    ]
    assert len(stored) == 4
    opened = set[bytes]()
    for digest in (first, second, third):
        for leaf in (1, 2, 3):
            seal = await keys.find_media_seal(TENANT, f"{KEYS}:{leaf}", digest)
            name = "sealed-sha256:" + compute_digest(digest).removeprefix("sha256:")
            opened |= {chunk for each in stored if (chunk := seal.open_chunk(TENANT, name, each))}
    assert opened == {b"text 1", b"text 2", b"text 3"}
    lost = await keys.compute_digest(TENANT, get_library_leaves(KNOWLEDGE_FAMILY, 2), b"text 3")
    assert lost not in {first, second, third}


async def test_segment_whose_text_stays_has_a_copy_under_the_key_of_its_edit(
    client: JetStreamClient,
) -> None:
    library = open_library(client, is_on=True)
    added = AddSegment(SegmentInput(scope="core", content="A rule."))
    await library.segments.handle(TENANT, added, TESTER)
    same = EditSegment(id=1, content="A rule.")
    assert (await library.segments.handle(TENANT, same, TESTER)).changes.edited == ()
    await library.segments.handle(TENANT, EditSegment(id=1, tier=2), TESTER)
    await library.keys.remove_leaves(TENANT, name_library_keys("segments"), frozenset({1}), 0)
    left = open_library(client, is_on=True)
    first, second = (await left.segments.load_state(TENANT)).segments[1].versions
    assert await left.read_text(second.text.digest) == "A rule."
    with pytest.raises(KeysErased):
        await left.read_text(first.text.digest)


async def test_library_that_was_sealed_once_stays_so_and_what_is_plain_stays_plain(
    client: JetStreamClient,
) -> None:
    await open_library(client, is_on=False).put_entries(build_entry(1))
    await open_library(client, is_on=True).put_entries(build_entry(2))
    last = open_library(client, is_on=False)
    await last.put_entries(build_entry(3))
    events = await last.client.library.read_events_at(TENANT, [1, 2, 3])
    assert [parse_sealed_header(each.stored) is not None for each in events] == [False, True, True]
    plain, *sealed = await last.list_digests()
    assert plain == compute_digest("text 1")
    assert all(each.startswith("hmac-sha256:") for each in sealed)
    assert [await last.read_text(each) for each in (plain, *sealed)] == [
        *("text 1", "text 2", "text 3")
    ]


async def test_sealed_library_is_not_edited_without_a_keyring(client: JetStreamClient) -> None:
    with pytest.raises(KeyringMissing):
        await open_library(client, is_on=True, has_keyring=False).put_entries(build_entry(1))
    await open_library(client, is_on=True).put_entries(build_entry(1))
    with pytest.raises(KeyringMissing):
        await open_library(client, is_on=False, has_keyring=False).put_entries(build_entry(2))


async def test_import_with_more_texts_than_an_append_takes_stores_none(
    client: JetStreamClient,
) -> None:
    library = open_library(client, is_on=True)
    with pytest.raises(TooLarge):
        await library.put_entries(*map(build_entry, range(1_001)))
    assert [bulk async for bulk in client.blobs.stream_raw_blobs(0)] == []
