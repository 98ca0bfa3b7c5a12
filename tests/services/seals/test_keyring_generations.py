"""The end of a generation, on a real server: records move, and nothing comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from tests.support.processes.separate_roles import ROLE_PASSWORDS
from turnlog.events.errors import Refused, Unavailable
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.js_api import PublishAck, request_json
from turnlog.events.jetstream.nats_connection import build_service_inbox, open_connection
from turnlog.events.jetstream.session_keys import SessionKeys, parse_record, store_record
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.seals.key_tree import KeyTree
from turnlog.events.seals.keyrings import KeyringUnfit, SealKeyring, StaticKeyring, WrappedKeys
from turnlog.events.subjects import KEYS_STREAM, build_key_subject
from turnlog.services.platform.nats_server import NatsConfig, NatsServer
from turnlog.services.seals.keyring_generations import (
    PAGE_RECORDS,
    GenerationRetirement,
    RetirementReport,
    UnfitRecord,
    count_records,
)

OLD: Final = StaticKeyring({1: bytes(32)})

BOTH: Final = StaticKeyring({1: bytes(32), 2: bytes([2]) * 32})

NEW: Final = StaticKeyring({2: bytes([2]) * 32})


@pytest_asyncio.fixture
async def client(tmp_path: Path) -> AsyncIterator[JetStreamClient]:
    config = NatsConfig(data_dir=tmp_path / "nats")
    async with (
        await NatsServer.start(config) as server,
        open_client(server.url, StreamOptions()) as opened,
    ):
        yield opened


@dataclass(kw_only=True)
class WatchedKeyring:
    """Both generations, which count what they unwrap and end at a number of it."""

    unwrapped: int = 0
    most: int = 1_000_000

    async def find_generation(self) -> int:
        return 2

    async def wrap_keys(self, tenant: str, keys: bytes) -> WrappedKeys:
        return await BOTH.wrap_keys(tenant, keys)

    async def unwrap_keys(self, tenant: str, keys: WrappedKeys) -> bytes:
        self.unwrapped += 1
        if self.unwrapped > self.most:
            raise Unavailable("keyring", "the test interrupts")
        return await BOTH.unwrap_keys(tenant, keys)


async def create_records(client: JetStreamClient, *sessions: str) -> None:
    keys = SessionKeys(connection=client.connection, keyring=OLD)
    for session in sessions:
        assert await keys.create_record("t", session) == 1


async def find_tree(client: JetStreamClient, keyring: StaticKeyring, session: str) -> bytes:
    """Return the keys of a session as a process reads them that has none in memory."""
    found = await SessionKeys(connection=client.connection, keyring=keyring).find_record(
        "t", session
    )
    assert found is not None
    return found.tree.encode()


def prepare_retirement(
    client: JetStreamClient, keyring: SealKeyring, removals: list[int]
) -> GenerationRetirement:
    async def remove_lines() -> None:
        removals.append(1)

    return GenerationRetirement(
        connection=client.connection,
        keyring=keyring,
        generation=1,
        remove_lines=remove_lines,
    )


async def test_records_are_under_the_newest_generation_and_hold_the_same_keys(
    client: JetStreamClient,
) -> None:
    await create_records(client, "a", "b", "c")
    trees = [await find_tree(client, OLD, each) for each in "abc"]
    assert await count_records(client.connection) == {1: 3}
    removals: list[int] = []
    report = await prepare_retirement(client, BOTH, removals).retire_generation()
    assert (report, removals) == (RetirementReport(3, [], removed=True), [1])
    assert await count_records(client.connection) == {2: 3}
    assert [await find_tree(client, NEW, each) for each in "abc"] == trees
    with pytest.raises(KeyringUnfit, match="no generation 2"):
        await find_tree(client, OLD, "a")
    again = await prepare_retirement(client, BOTH, removals).retire_generation()
    assert again.rewrapped == 0


async def test_erasure_that_happens_meanwhile_is_not_undone(client: JetStreamClient) -> None:
    await create_records(client, "a", "b")
    punctured = KeyTree.decode(await find_tree(client, OLD, "a")).remove_leaves([3]).encode()

    class ErasingKeyring(WatchedKeyring):
        async def unwrap_keys(self, tenant: str, keys: WrappedKeys) -> bytes:
            opened = await super().unwrap_keys(tenant, keys)
            if self.unwrapped == 1:
                # By a process that has not heard of the second generation.
                wrapped = await OLD.wrap_keys("t", punctured)
                await publish_record(client, "a", wrapped)
            return opened

    removals: list[int] = []
    report = await prepare_retirement(client, ErasingKeyring(), removals).retire_generation()
    assert (report.rewrapped, report.removed) == (2, True)
    assert await find_tree(client, NEW, "a") == punctured
    assert await count_records(client.connection) == {2: 2}


async def publish_record(client: JetStreamClient, session: str, wrapped: WrappedKeys) -> None:
    stored = b"turnlog-keys 1 %d\n" % wrapped.generation + wrapped.wrapped
    subject = build_key_subject("t", session)
    await request_json(client.connection, subject, PublishAck, stored)


async def test_interrupted_run_leaves_the_generation_and_the_next_one_goes_on(
    client: JetStreamClient,
) -> None:
    sessions = [f"s-{number}" for number in range(70)]
    await create_records(client, *sessions)
    removals: list[int] = []
    with pytest.raises(Unavailable, match="the test interrupts"):
        await prepare_retirement(client, WatchedKeyring(most=66), removals).retire_generation()
    assert removals == []
    left = (await count_records(client.connection))[1]
    assert 0 < left < 70
    report = await prepare_retirement(client, BOTH, removals).retire_generation()
    assert (report.rewrapped, report.removed, removals) == (left, True, [1])
    assert await count_records(client.connection) == {2: 70}


async def test_record_that_does_not_open_keeps_the_generation_and_is_named(
    client: JetStreamClient,
) -> None:
    await create_records(client, "a", "b")
    await publish_record(client, "b", await StaticKeyring({1: b"x" * 32}).wrap_keys("t", b"keys"))
    removals: list[int] = []
    report = await prepare_retirement(client, BOTH, removals).retire_generation()
    reason = "its generation 1 has another key than this record was made with"
    assert report == RetirementReport(1, [UnfitRecord("t", "b", reason)], removed=False)
    assert removals == []


async def test_record_that_does_not_open_and_was_replaced_needs_no_generation(
    client: JetStreamClient,
) -> None:
    await publish_record(client, "a", await StaticKeyring({1: b"x" * 32}).wrap_keys("t", b"keys"))
    await publish_record(client, "a", await NEW.wrap_keys("t", KeyTree.create(bytes(32)).encode()))
    report = await prepare_retirement(client, BOTH, []).retire_generation()
    assert report == RetirementReport(0, [], removed=True)
    assert await count_records(client.connection) == {2: 1}


async def test_record_that_is_stored_once_the_line_is_gone_is_wrapped_again(
    client: JetStreamClient,
) -> None:
    await create_records(client, "a")
    tree = await find_tree(client, OLD, "a")

    async def store_late() -> None:
        await publish_record(client, "late", await OLD.wrap_keys("t", tree))

    retirement = prepare_retirement(client, BOTH, [])
    retirement.remove_lines = store_late
    assert (await retirement.retire_generation()).rewrapped == 2
    assert await find_tree(client, NEW, "late") == tree


@pytest.mark.slow("it stores and replaces more records than one request returns")
async def test_records_of_several_pages_are_all_found_behind_gaps(client: JetStreamClient) -> None:
    count = 2 * PAGE_RECORDS + 50
    keys = KeyTree.create(bytes(32)).encode()
    numbers = range(count)
    for start in range(0, count, 50):
        await asyncio.gather(
            *(
                store_record(client.connection, OLD, ("t", f"s-{number}"), keys)
                for number in numbers[start : start + 50]
            )
        )
    js = client.connection.nc.jetstream()
    for gap in (1, 7, 8, 600):
        assert await js.delete_msg(KEYS_STREAM, gap)
    assert await count_records(client.connection) == {1: count - 4}
    report = await prepare_retirement(client, BOTH, []).retire_generation()
    assert report.rewrapped == count - 4
    assert await count_records(client.connection) == {2: count - 4}
    stored = (await js.get_last_msg(KEYS_STREAM, build_key_subject("t", f"s-{count - 1}"))).data
    assert stored is not None
    assert await NEW.unwrap_keys("t", parse_record("s", stored)) == keys


async def test_login_of_gateways_suffices(tmp_path: Path) -> None:
    config = NatsConfig(data_dir=tmp_path, role_passwords=ROLE_PASSWORDS)
    async with (
        await NatsServer.start(config) as server,
        open_client(server.url, StreamOptions()) as client,
    ):
        await create_records(client, "a", "b")
        url = server.role_urls["gateway"]
        inbox = build_service_inbox(url)
        async with open_connection(url, inbox_prefix=inbox, patience=1.0) as connection:
            retirement = prepare_retirement(client, BOTH, [])
            retirement.connection = connection
            assert (await retirement.retire_generation()).rewrapped == 2
            assert await count_records(connection) == {2: 2}
            assert connection.denied_subjects == set()


async def test_newest_generation_is_not_retired(client: JetStreamClient) -> None:
    with pytest.raises(Refused, match="which is 1") as refused:
        await prepare_retirement(client, OLD, []).retire_generation()
    assert refused.value.fix == "add one with `turnlog keyring rotate`"
