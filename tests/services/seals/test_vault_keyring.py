"""A keyring in a service of keys: what it is asked, what it binds, and what its outage means."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import SecretStr

from tests.support.servers.key_service import TOKEN, KeyService, run_key_service
from turnlog.events.errors import Refused, Unavailable
from turnlog.events.jetstream.jetstream_client import (
    JetStreamClient,
    open_client,
)
from turnlog.events.jetstream.session_keys import SessionKeys
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.seals.keyrings import KeyringUnfit, SealKeyring, WrappedKeys
from turnlog.services.platform.nats_server import NatsConfig, NatsServer
from turnlog.services.platform.process_settings import WorkerSettings
from turnlog.services.seals.keyring_files import load_keyring
from turnlog.services.seals.keyring_generations import GenerationRetirement, count_records


@pytest.fixture
def service() -> Iterator[KeyService]:
    with run_key_service(KeyService()) as running:
        yield running


@pytest_asyncio.fixture
async def client(tmp_path: Path) -> AsyncIterator[JetStreamClient]:
    config = NatsConfig(data_dir=tmp_path / "nats")
    async with (
        await NatsServer.start(config) as server,
        open_client(server.url, StreamOptions()) as opened,
    ):
        yield opened


def open_keyring(service: KeyService, token: str = TOKEN) -> SealKeyring:
    settings = WorkerSettings(keyring=service.address, keyring_token=SecretStr(token))
    found = load_keyring(settings)
    assert found is not None
    return found


async def test_keys_are_wrapped_there_under_the_newest_version_and_for_one_tenant(
    service: KeyService,
) -> None:
    keyring = open_keyring(service)
    first = await keyring.wrap_keys("a", b"keys of a session")
    service.rotate_key()
    second = await keyring.wrap_keys("a", b"keys of a session")
    assert (first.generation, second.generation) == (1, 2)
    assert await keyring.find_generation() == await open_keyring(service).find_generation() == 2
    for each in (first, second):
        assert await keyring.unwrap_keys("a", each) == b"keys of a session"
        assert b"keys of a session" not in each.wrapped
    with pytest.raises(KeyringUnfit, match="generation 1: cipher: message authentication failed"):
        await keyring.unwrap_keys("b", first)


async def test_session_costs_a_request_when_it_is_opened_and_one_when_it_is_first_read(
    client: JetStreamClient, service: KeyService
) -> None:
    keyring = open_keyring(service)
    writer = SessionKeys(connection=client.connection, keyring=keyring)
    assert await writer.create_record("t", "s") == 1
    leaves = {"s": frozenset({0})}
    digest = await writer.compute_digest("t", leaves, b"text")
    assert service.requests == ["encrypt"]
    reader = SessionKeys(connection=client.connection, keyring=open_keyring(service))
    for _ in range(3):
        assert await reader.compute_digest("t", leaves, b"text") == digest
    assert service.requests == ["encrypt", "decrypt"]


async def test_records_move_to_a_version_that_was_added_there(
    client: JetStreamClient, service: KeyService
) -> None:
    keyring = open_keyring(service)
    writer = SessionKeys(connection=client.connection, keyring=keyring)
    for session in "ab":
        await writer.create_record("t", session)
    service.rotate_key()
    report = await GenerationRetirement(
        connection=client.connection,
        keyring=open_keyring(service),
        generation=1,
        remove_lines=None,
    ).retire_generation()
    assert (report.rewrapped, report.removed) == (2, False)
    assert await count_records(client.connection) == {2: 2}
    reader = SessionKeys(connection=client.connection, keyring=keyring)
    assert await reader.has_record("t", "a")


async def test_outage_is_told_by_the_setting_and_passes(
    client: JetStreamClient, service: KeyService
) -> None:
    keys = SessionKeys(connection=client.connection, keyring=open_keyring(service))
    service.denied_actions.add("encrypt")
    with pytest.raises(Unavailable, match=r"keyring is unavailable.*TURNLOG_KEYRING.*503 Vault is"):
        await keys.create_record("t", "s")
    service.denied_actions.clear()
    assert await keys.create_record("t", "s") == 1


async def test_service_that_is_away_or_denies_is_told_by_the_setting(service: KeyService) -> None:
    with pytest.raises(Unavailable, match="answers 403 permission denied: set TURNLOG_KEYRING_TO"):
        await open_keyring(service, "other").wrap_keys("a", b"keys")
    gone = KeyService()
    with run_key_service(gone):
        pass
    with pytest.raises(Unavailable, match="TURNLOG_KEYRING names: it does not answer") as away:
        await open_keyring(gone).unwrap_keys("a", WrappedKeys(1, b"keys"))
    assert away.value.what == "keyring"


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("vault+http://127.0.0.1:1", "it is no address such as"),
        ("vault+ftp://127.0.0.1:1/key", "it is no address such as"),
        ("vault+https://user:secret@127.0.0.1:1/key", "it has a secret in it"),
        ("other+https://127.0.0.1:1/key", "no package registers a keyring 'other'"),
    ],
)
def test_address_that_cannot_be_used_is_refused_and_a_secret_not_repeated(
    address: str, reason: str
) -> None:
    with pytest.raises(Refused, match=reason) as refused:
        load_keyring(WorkerSettings(keyring=address))
    assert "secret@" not in f"{refused.value} {refused.value.fix}"


def test_engine_at_another_mount_is_named_in_the_address() -> None:
    keyring = load_keyring(WorkerSettings(keyring="vault+https://127.0.0.1:1/teams/keys/turnlog"))
    assert getattr(keyring, "mount", "") == "https://127.0.0.1:1/v1/teams/keys"
    assert "token" not in repr(keyring)
