"""Snapshots are believed under the key they were written with, at their own place, up to a size."""

from __future__ import annotations

import hmac
import zlib
from pathlib import Path

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from tests.support.sessions.session_harness import TENANT, SessionHarness
from turnlog.events.errors import TooLarge
from turnlog.events.store.memory_log import MemorySnapshotStore
from turnlog.projections.session.frozen_copies import replace
from turnlog.projections.session.open_turn import RetrievedEntry, TurnRetrieval
from turnlog.services.caches.session_snapshots import (
    KEY_FILE,
    MAX_SNAPSHOT_BYTES,
    AuthenticatedSnapshotStore,
    CheckedSnapshotStore,
    apply_directory_key,
    create_process_key,
)
from turnlog.services.platform.process_settings import AllInOneSettings

STATE = b'{"state": "as folded"}'


@pytest.fixture
def stored() -> MemorySnapshotStore:
    return MemorySnapshotStore()


@pytest.fixture
def snapshots(stored: MemorySnapshotStore) -> AuthenticatedSnapshotStore:
    return AuthenticatedSnapshotStore(stored, create_process_key())


@pytest.mark.asyncio
async def test_snapshot_is_returned_only_to_stores_with_its_key(
    snapshots: AuthenticatedSnapshotStore, stored: MemorySnapshotStore
) -> None:
    await snapshots.put_snapshot("acme", "s", STATE)
    await snapshots.put_snapshot("acme", "s", b"older", 3)
    again = AuthenticatedSnapshotStore(stored, snapshots.key)
    assert await again.get_snapshot("acme", "s") == STATE
    assert await again.get_snapshot("acme", "s", 3) == b"older"
    other = AuthenticatedSnapshotStore(stored, create_process_key())
    assert await other.get_snapshot("acme", "s") is None
    assert await snapshots.get_snapshot("acme", "none") is None


@pytest.mark.asyncio
async def test_snapshot_copied_to_another_tenant_session_or_sequence_is_ignored(
    snapshots: AuthenticatedSnapshotStore, stored: MemorySnapshotStore
) -> None:
    await snapshots.put_snapshot("acme", "s", STATE)
    (signed,) = stored.snapshots.values()
    for place in (("acme", "t", None), ("other", "s", None), ("acme", "s", 1)):
        stored.snapshots[place] = signed
        assert await snapshots.get_snapshot(*place) is None, place


@pytest.mark.asyncio
async def test_snapshot_without_valid_digest_is_ignored(
    snapshots: AuthenticatedSnapshotStore, stored: MemorySnapshotStore
) -> None:
    await snapshots.put_snapshot("acme", "s", STATE)
    (signed,) = stored.snapshots.values()
    flipped = bytes([signed[-1] ^ 1])
    for data in (b"", signed[:16], signed[:-1] + flipped, zlib.compress(STATE), STATE):
        stored.snapshots["acme", "s", None] = data
        assert await snapshots.get_snapshot("acme", "s") is None, data


@pytest.mark.asyncio
async def test_snapshot_that_decompresses_beyond_the_limit_is_rejected(
    snapshots: AuthenticatedSnapshotStore, stored: MemorySnapshotStore
) -> None:
    with pytest.raises(TooLarge):
        await snapshots.put_snapshot("acme", "s", bytes(MAX_SNAPSHOT_BYTES + 1))
    packer = zlib.compressobj()
    bomb = b"".join(packer.compress(bytes(2**20)) for _ in range(MAX_SNAPSHOT_BYTES // 2**20 + 1))
    bomb += packer.flush()
    message = b"turnlog snapshot acme s None\n" + bomb
    digest = hmac.digest(snapshots.key.encode(), message, "sha256")
    stored.snapshots["acme", "s", None] = digest + bomb
    assert await snapshots.get_snapshot("acme", "s") is None


class FullSnapshotStore(MemorySnapshotStore):
    """A store for which every snapshot is too large."""

    async def put_snapshot(
        self, tenant: str, session: str, data: bytes, interval: int | None = None
    ) -> None:
        del tenant, session, interval
        raise TooLarge("snapshot", len(data), 0)


@pytest.mark.asyncio
async def test_oversized_state_is_logged_and_not_saved_without_an_exception() -> None:
    house = SessionHarness()
    await house.open_session()
    state = await house.sessions.require_state(TENANT, "s")
    with capture_logs() as logs:
        await CheckedSnapshotStore(house.log, FullSnapshotStore()).save_state(state)
    assert [(each["event"], each["session"]) for each in logs] == [("snapshot-not-saved", "s")]


@pytest.mark.asyncio
async def test_state_with_titles_of_a_sealed_library_is_in_no_snapshot(
    stored: MemorySnapshotStore,
) -> None:
    house = SessionHarness()
    await house.open_session()
    await house.submit_turn("Which ships are late?")
    state = await house.load_state()
    assert state.open is not None
    for digest, count in (("hmac-sha256:1", 0), ("sha256:1", 1)):
        entry = RetrievedEntry(
            collection="c",
            entry="e",
            revision=1,
            title="Late ships",
            digest=digest,
            score=1,
            confidence=1,
        )
        retrieval = TurnRetrieval(
            retrieval="cases", sequence=3, entries=(entry,), nothing_found=None, unavailable=None
        )
        opened = replace(state.open, retrievals=(retrieval,))
        await CheckedSnapshotStore(house.log, stored).save_state(replace(state, open=opened))
        assert len(stored.snapshots) == count


def test_snapshot_key_of_a_data_directory_is_stable_and_owner_readable_only(
    tmp_path: Path,
) -> None:
    settings = AllInOneSettings(data_dir=tmp_path)
    first = apply_directory_key(settings, creating=True).snapshot_key
    assert first is not None
    assert apply_directory_key(settings, creating=True).snapshot_key == first
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert first.get_secret_value() not in repr(apply_directory_key(settings, creating=True))


def test_snapshot_key_creation_is_logged_and_never_done_by_a_reader(
    tmp_path: Path,
) -> None:
    settings = AllInOneSettings(data_dir=tmp_path)
    assert apply_directory_key(settings, creating=False).snapshot_key is None
    assert list(tmp_path.iterdir()) == []
    with capture_logs() as logs:
        made = apply_directory_key(settings, creating=True).snapshot_key
    assert [(each["event"], each["file"]) for each in logs] == [
        ("snapshot-key-created", str(tmp_path / KEY_FILE))
    ]
    assert apply_directory_key(settings, creating=False).snapshot_key == made


@pytest.mark.parametrize("damaged", [b"", b"short", b"\xff" * 64])
def test_damaged_snapshot_key_is_replaced_with_a_warning(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / KEY_FILE).write_bytes(damaged)
    with capture_logs() as logs:
        made = apply_directory_key(AllInOneSettings(data_dir=tmp_path), creating=True).snapshot_key
    assert made is not None
    assert (tmp_path / KEY_FILE).read_text() == f"{made.get_secret_value()}\n"
    assert [(each["event"], each["file"]) for each in logs] == [
        ("snapshot-key-replaced", str(tmp_path / KEY_FILE))
    ]


def test_configured_snapshot_key_is_not_written_to_a_file(tmp_path: Path) -> None:
    settings = AllInOneSettings(data_dir=tmp_path, snapshot_key=SecretStr("5e" * 32))
    assert apply_directory_key(settings, creating=True) is settings
    assert not (tmp_path / KEY_FILE).exists()
