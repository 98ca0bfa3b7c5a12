"""Keys of sealed sessions on a real server: records of them, and what is read with and without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import pytest_asyncio

from tests.events.log_sessions import build_submissions, require_appended
from turnlog.events.codec import SealEvent, encode_batch
from turnlog.events.content import ErasedText, PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import AlteredBlob, Corrupt, KeyringMissing
from turnlog.events.jetstream.jetstream_client import (
    JetStreamClient,
    add_keys,
    build_client,
    open_client,
)
from turnlog.events.jetstream.js_api import PublishAck, request_json
from turnlog.events.jetstream.nats_connection import require_keys
from turnlog.events.jetstream.session_keys import SessionKeys, parse_record
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.events.seals.kept_keys import compute_kept_digest
from turnlog.events.seals.key_ports import SealingKeys
from turnlog.events.seals.key_tree import KeyTree, get_text_leaf
from turnlog.events.seals.keyrings import StaticKeyring, WrappedKeys
from turnlog.events.seals.sealed_payload import SealedPayload
from turnlog.events.seals.written_events import WrittenEvents
from turnlog.events.subjects import KEYS_STREAM, build_blob_subject, build_key_subject
from turnlog.events.testing import make_drafts
from turnlog.services.platform.nats_server import NatsServer

KEYRING = StaticKeyring({1: bytes(32)})

OTHER_KEYRING = StaticKeyring({1: bytes([1]) * 32})


@pytest_asyncio.fixture
async def client(own_server: NatsServer) -> AsyncIterator[JetStreamClient]:
    """A client with a keyring, on a server of its own: others could not read what it seals."""
    async with open_client(own_server.url, StreamOptions(), keyring=KEYRING) as opened:
        yield opened


def open_again(client: JetStreamClient, keyring: StaticKeyring | None) -> JetStreamClient:
    """Return a client that has read nothing yet."""
    return build_client(add_keys(replace(client.connection, keys=None), keyring))


def get_keys(client: JetStreamClient) -> SealingKeys:
    return require_keys(client.connection, "the test")


async def build_seal(client: JetStreamClient, tenant: str, *turns: int) -> SealEvent:
    leaves = [{"s": frozenset({get_text_leaf(turn)})} for turn in turns]
    seals = iter([await get_keys(client).find_event_seal(tenant, each) for each in leaves])
    return lambda event, opened: next(seals).seal_event(type(event), opened)


async def append_sealed(
    client: JetStreamClient, tenant: str, *texts: str
) -> tuple[RecordedEvent, ...]:
    """Append a sealed turn with each of these texts to a new session."""
    assert await get_keys(client).create_record(tenant, "s") == 1
    batch = encode_batch(
        tenant=tenant,
        session="s",
        after=None,
        drafts=make_drafts(build_submissions(*texts)),
        seal=await build_seal(client, tenant, *range(1, len(texts) + 1)),
    )
    return require_appended(await client.log.append_batch(batch))


async def store_tree(client: JetStreamClient, tenant: str, tree: KeyTree) -> None:
    """Store a later record of a session, as erasing does."""
    stored = b"turnlog-keys 1 1\n" + (await KEYRING.wrap_keys(tenant, tree.encode())).wrapped
    await request_json(client.connection, build_key_subject(tenant, "s"), PublishAck, stored)


def read_blocks(folder: Path) -> list[bytes]:
    """Return all files in which a server keeps messages."""
    return [file.read_bytes() for file in folder.rglob("*.blk")]


async def read_texts(client: JetStreamClient, tenant: str) -> list[object]:
    last = await client.log.read_last_event(tenant, "s", leader=True)
    assert last is not None
    events = await client.log.read_range(tenant, "s", None, last)
    return [each.event.text for each in events if isinstance(each.event, TurnSubmitted)]


async def test_session_has_one_record_whoever_creates_it(
    client: JetStreamClient, fresh_tenant: str
) -> None:
    both = [client, open_again(client, KEYRING)]
    await asyncio.gather(*(get_keys(each).create_record(fresh_tenant, "s") for each in both))
    leaves = {"s": frozenset({0})}
    digests = [await get_keys(each).compute_digest(fresh_tenant, leaves, b"a") for each in both]
    assert digests[0] == digests[1]
    info = await client.connection.nc.jetstream().stream_info(KEYS_STREAM)
    assert (info.config.max_msgs_per_subject, info.config.deny_delete) == (
        2,
        False,
    )  # The earlier one is overwritten, and not dropped.
    stored = (await client.connection.nc.jetstream().get_last_msg(
        KEYS_STREAM, build_key_subject(fresh_tenant, "s")
    )).data  # fmt: skip
    assert stored is not None
    assert len(stored) < 80


@dataclass(slots=True)
class ChangingKeyring:
    """A keyring that gets a generation as soon as it has wrapped under the one before it."""

    current: StaticKeyring

    async def find_generation(self) -> int:
        return await self.current.find_generation()

    async def wrap_keys(self, tenant: str, keys: bytes) -> WrappedKeys:
        wrapped = await self.current.wrap_keys(tenant, keys)
        self.current = StaticKeyring({1: bytes(32), 2: bytes(32)})
        return wrapped

    async def unwrap_keys(self, tenant: str, keys: WrappedKeys) -> bytes:
        return await self.current.unwrap_keys(tenant, keys)


async def test_record_that_is_stored_while_a_generation_is_added_ends_up_under_it(
    client: JetStreamClient, fresh_tenant: str
) -> None:
    keys = SessionKeys(connection=client.connection, keyring=ChangingKeyring(KEYRING))
    assert await keys.create_record(fresh_tenant, "s") == 2
    js = client.connection.nc.jetstream()
    stored = (await js.get_last_msg(KEYS_STREAM, build_key_subject(fresh_tenant, "s"))).data
    assert stored is not None
    later = StaticKeyring({2: bytes(32)})
    assert await later.unwrap_keys(fresh_tenant, parse_record("s", stored))
    # Who had created it goes on with the same keys.
    leaves = {"s": frozenset({0})}
    opened = SessionKeys(connection=client.connection, keyring=later)
    digests = [await each.compute_digest(fresh_tenant, leaves, b"a") for each in (keys, opened)]
    assert digests[0] == digests[1]


async def test_every_way_to_read_has_the_words_with_the_keyring_and_says_so_without(
    client: JetStreamClient, fresh_tenant: str
) -> None:
    texts = [f"qvx text {number}" for number in range(1, 13)]
    appended = await append_sealed(client, fresh_tenant, *texts)
    reader, stranger = open_again(client, KEYRING), open_again(client, None)
    expected = [PlainText(text=text) for text in texts]
    assert await read_texts(reader, fresh_tenant) == expected
    (third,) = await reader.log.read_events_at(fresh_tenant, [appended[2].stream_sequence])
    assert (third.event, third.head) == (appended[2].event, appended[2].head)
    async with aclosing(reader.log.watch_session(fresh_tenant, "s")) as events:
        watched = [await anext(events) for _ in texts]
    assert [each.event for each in watched] == [each.event for each in appended]
    async for raws in reader.log.stream_raw_events(fresh_tenant, 0, live=False):
        found = [await reader.log.decode_event(raw.stored, raw.stream_sequence) for raw in raws]
        assert [each.event for each in found] == [each.event for each in appended]
        assert not any(b"qvx" in raw.stored for raw in raws)
    with pytest.raises(KeyringMissing, match="set TURNLOG_KEYRING"):
        await read_texts(stranger, fresh_tenant)


async def test_live_events_of_another_process_open_for_who_watches(
    client: JetStreamClient, fresh_tenant: str
) -> None:
    reader, arrived = open_again(client, KEYRING), asyncio.Event()
    async with reader.log.open_session_watch(fresh_tenant, "s", 0, arrived) as watch:
        assert await watch.take_next() is None
        (appended,) = await append_sealed(client, fresh_tenant, "hello")
        while (found := await watch.take_next()) is None:
            arrived.clear()
            await arrived.wait()
    assert found.event == appended.event


async def test_keys_that_were_removed_leave_erased_texts_and_everything_else_opens(
    client: JetStreamClient, fresh_tenant: str
) -> None:
    await append_sealed(client, fresh_tenant, "first", "second", "third")
    js = client.connection.nc.jetstream()
    record = (await js.get_last_msg(KEYS_STREAM, build_key_subject(fresh_tenant, "s"))).data
    assert record is not None
    keys = await KEYRING.unwrap_keys(fresh_tenant, parse_record("s", record))
    await store_tree(client, fresh_tenant, KeyTree.decode(keys).remove_leaves([get_text_leaf(2)]))
    assert await read_texts(open_again(client, KEYRING), fresh_tenant) == [
        PlainText(text="first"),
        ErasedText(erased=True, digest="", characters=6),
        PlainText(text="third"),
    ]


async def test_lost_record_and_another_keyring_do_not_pass_for_erasure(
    client: JetStreamClient, fresh_tenant: str, caplog: pytest.LogCaptureFixture
) -> None:
    (appended,) = await append_sealed(client, fresh_tenant, "hello")
    for unfit in (OTHER_KEYRING, StaticKeyring({2: bytes(32)})):
        with pytest.raises(KeyringMissing, match="set TURNLOG_KEYRING"):
            await read_texts(open_again(client, unfit), fresh_tenant)
    assert [each.getMessage() for each in caplog.records] == [
        "keyring-unfit: its generation 1 has another key than this record was made with",
        "keyring-unfit: it has no generation 1",
    ]
    js = client.connection.nc.jetstream()
    await js.purge_stream(KEYS_STREAM, subject=build_key_subject(fresh_tenant, "s"))
    reader = open_again(client, KEYRING)
    with pytest.raises(Corrupt, match="the record with the keys of session s is missing"):
        await reader.log.read_events_at(fresh_tenant, [appended.stream_sequence])
    unreadable = await reader.log.find_unreadable_end(fresh_tenant, "s")
    assert unreadable is not None
    assert "is missing" in unreadable.reason


async def test_text_of_a_turn_is_stored_sealed_under_a_keyed_digest(
    client: JetStreamClient, fresh_tenant: str
) -> None:
    await get_keys(client).create_record(fresh_tenant, "s")
    leaves = {"s": frozenset({3})}
    digest = await client.blobs.put_turn_blob(fresh_tenant, b"qvx result", leaves)
    assert digest.startswith("hmac-sha256:")
    assert await client.blobs.put_turn_blob(fresh_tenant, b"qvx result", leaves) == digest
    assert await open_again(client, KEYRING).blobs.get_blob(fresh_tenant, digest) == b"qvx result"
    subject = build_blob_subject(fresh_tenant, digest)
    stored = (await client.connection.nc.jetstream().get_last_msg("BLOBS", subject)).data
    assert stored is not None
    assert b"qvx" not in stored
    with pytest.raises(KeyringMissing, match="TURNLOG_KEYRING"):
        await open_again(client, None).blobs.get_blob(fresh_tenant, digest)
    await request_json(client.connection, subject, PublishAck, stored[:-1] + b"!")
    assert await client.blobs.get_blob(fresh_tenant, digest) == b"qvx result"
    other = digest[:-1] + ("0" if digest[-1] != "0" else "1")
    await request_json(
        client.connection, build_blob_subject(fresh_tenant, other), PublishAck, stored
    )
    with pytest.raises(AlteredBlob):
        await client.blobs.get_blob(fresh_tenant, other)


async def test_removing_keys_is_final_in_every_process_and_overwrites_the_record_before(
    client: JetStreamClient, fresh_tenant: str, own_server: NatsServer, tmp_path: Path
) -> None:
    await append_sealed(client, fresh_tenant, "first", "second")
    async with open_client(own_server.url, StreamOptions(), keyring=KEYRING) as other:
        assert await read_texts(other, fresh_tenant) == [
            PlainText(text="first"),
            PlainText(text="second"),
        ]
        forgotten = asyncio.Event()

        def note(_tenant: str, _session: str) -> None:
            forgotten.set()

        get_keys(other).add_listener(note)
        subject = build_key_subject(fresh_tenant, "s")
        js = client.connection.nc.jetstream()
        before = (await js.get_last_msg(KEYS_STREAM, subject)).data
        leaves = frozenset({get_text_leaf(1)})
        removed = await get_keys(client).remove_leaves(fresh_tenant, "s", leaves, 2)
        assert removed.before != removed.after
        again = await get_keys(client).remove_leaves(fresh_tenant, "s", leaves, 2)
        assert (again.before, again.after) == (removed.after, removed.after)
        kept = await get_keys(other).list_kept_keys(fresh_tenant, "s", 2)
        assert removed.left == again.left == compute_kept_digest(kept)
        await asyncio.wait_for(forgotten.wait(), 10)
        erased = ErasedText(erased=True, digest="", characters=5)
        assert await read_texts(other, fresh_tenant) == [erased, PlainText(text="second")]
    info = await js.stream_info(KEYS_STREAM, subjects_filter=subject)
    assert info.state.subjects == {subject: 1}
    assert before is not None
    last = (await js.get_last_msg(KEYS_STREAM, subject)).data
    assert last is not None
    stored = read_blocks(tmp_path)
    assert [
        (before in each, last in each) for each in stored if last in each or before in each
    ] == [(False, True)]


async def read_first_text(client: JetStreamClient, tenant: str) -> tuple[bytes, object]:
    """Return the first event of a session as it is stored, and the text of its turn."""
    (first,) = await client.log.read_events_at(tenant, [1])
    assert isinstance(first.event, TurnSubmitted)
    return first.stored, first.event.text


async def test_what_a_process_has_sealed_is_read_in_it_as_it_was_until_it_hears_of_removed_keys(
    client: JetStreamClient, fresh_tenant: str, own_server: NatsServer
) -> None:
    written, forgotten = WrittenEvents(), asyncio.Event()
    connections = [
        open_client(own_server.url, StreamOptions(), keyring=KEYRING, written=written)
        for _ in range(2)
    ]
    async with connections[0] as writer, connections[1] as reader:
        await append_sealed(writer, fresh_tenant, "first", "second")
        stored, text = await read_first_text(reader, fresh_tenant)
        assert isinstance(stored, SealedPayload)
        assert stored is written.find_event(bytes(stored))
        assert text == PlainText(text="first")
        assert await read_first_text(open_again(client, KEYRING), fresh_tenant) == (stored, text)

        def note(_tenant: str, _session: str) -> None:
            forgotten.set()

        get_keys(writer).add_listener(note)
        leaves = frozenset({get_text_leaf(1)})
        await get_keys(client).remove_leaves(fresh_tenant, "s", leaves, 2)
        await asyncio.wait_for(forgotten.wait(), 10)
        assert written.find_event(bytes(stored)) is None
        erased = ErasedText(erased=True, digest="", characters=5)
        for each in (writer, reader):
            assert (await read_first_text(each, fresh_tenant))[1] == erased


async def test_who_compares_a_record_reads_no_event_that_was_written_before_its_keys_went(
    client: JetStreamClient, fresh_tenant: str
) -> None:
    # Neither hears of records, and the second has never read this one.
    written, bare = WrittenEvents(), replace(client.connection, keys=None)
    writer, reader = (build_client(add_keys(bare, KEYRING, written)) for _ in range(2))
    await append_sealed(writer, fresh_tenant, "first", "second")
    leaves = frozenset({get_text_leaf(1)})
    await get_keys(client).remove_leaves(fresh_tenant, "s", leaves, 2)
    assert (await read_first_text(reader, fresh_tenant))[1] == PlainText(text="first")
    await get_keys(reader).compare_record(fresh_tenant, "s")
    erased = ErasedText(erased=True, digest="", characters=5)
    assert (await read_first_text(reader, fresh_tenant))[1] == erased


@dataclass(slots=True, eq=False)
class WatchedEvents(WrittenEvents):
    """Written events that say when some were forgotten."""

    forgotten: asyncio.Event = field(default_factory=asyncio.Event)

    def forget_session(self, tenant: str, session: str) -> None:
        WrittenEvents.forget_session(self, tenant, session)
        self.forgotten.set()


async def test_process_forgets_what_was_written_also_where_it_has_no_keys_in_memory(
    client: JetStreamClient, fresh_tenant: str, own_server: NatsServer
) -> None:
    await append_sealed(client, fresh_tenant, "first", "second")
    stored, _ = await read_first_text(open_again(client, KEYRING), fresh_tenant)
    assert isinstance(stored, SealedPayload)
    written = WatchedEvents()
    async with open_client(own_server.url, StreamOptions(), keyring=KEYRING, written=written):
        leaf = get_text_leaf(1)
        written.add_event(fresh_tenant, f"s:{leaf}", stored)
        await get_keys(client).remove_leaves(fresh_tenant, "s", frozenset({leaf}), 2)
        await asyncio.wait_for(written.forgotten.wait(), 10)
        assert written.find_event(bytes(stored)) is None


async def test_two_removals_at_once_both_hold(client: JetStreamClient, fresh_tenant: str) -> None:
    await append_sealed(client, fresh_tenant, "first", "second", "third")
    both = [client, open_again(client, KEYRING)]
    await asyncio.gather(
        *(
            get_keys(each).remove_leaves(fresh_tenant, "s", frozenset({get_text_leaf(turn)}), 3)
            for each, turn in zip(both, (1, 3), strict=True)
        )
    )
    found = await read_texts(open_again(client, KEYRING), fresh_tenant)
    assert [isinstance(each, ErasedText) for each in found] == [True, False, True]


async def test_text_under_all_keys_of_a_session_closes_with_the_first_that_is_removed(
    client: JetStreamClient, fresh_tenant: str
) -> None:
    keys = get_keys(client)
    await keys.create_record(fresh_tenant, "s")
    stored = await keys.seal_session_text(fresh_tenant, "s", "snapshot", b"qvx state")
    assert await keys.open_text(fresh_tenant, "snapshot", stored) == b"qvx state"
    await keys.remove_leaves(fresh_tenant, "s", frozenset({5}), 3)
    with pytest.raises(Corrupt, match="erased"):
        await keys.open_text(fresh_tenant, "snapshot", stored)
    later = await keys.seal_session_text(fresh_tenant, "s", "snapshot", b"qvx later")
    assert b"s:0-4,6-2097151" in later
    assert await keys.open_text(fresh_tenant, "snapshot", later) == b"qvx later"
    await keys.remove_leaves(fresh_tenant, "s", None, 3)
    with pytest.raises(Corrupt, match="all of them were erased"):
        await keys.seal_session_text(fresh_tenant, "s", "snapshot", b"qvx")
