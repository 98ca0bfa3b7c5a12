from __future__ import annotations

import pytest

from tests.events.conftest import ContractStore
from turnlog.events.codec import MAX_EVENT_BYTES
from turnlog.events.content import compute_digest
from turnlog.events.errors import Corrupt, Refused, TooLarge
from turnlog.events.jetstream.jetstream_client import JetStreamClient
from turnlog.events.subjects import BLOBS_STREAM, build_blob_subject


async def test_blob_is_found_under_its_digest(store: ContractStore, fresh_tenant: str) -> None:
    digest = await store.blobs.put_blob(fresh_tenant, "naïve\0text".encode())
    assert digest == compute_digest("naïve\0text")
    assert await store.blobs.get_blob(fresh_tenant, digest) == "naïve\0text".encode()


async def test_empty_text_is_a_blob_too(store: ContractStore, fresh_tenant: str) -> None:
    assert (
        await store.blobs.get_blob(fresh_tenant, await store.blobs.put_blob(fresh_tenant, b""))
        == b""
    )


async def test_blob_put_twice_is_stored_once(jetstream: JetStreamClient, fresh_tenant: str) -> None:
    digest = await jetstream.blobs.put_blob(fresh_tenant, b"text")
    assert await jetstream.blobs.put_blob(fresh_tenant, b"text") == digest
    stored = await jetstream.connection.nc.jetstream().stream_info(
        BLOBS_STREAM, subjects_filter=build_blob_subject(fresh_tenant, digest)
    )
    assert stored.state.subjects == {build_blob_subject(fresh_tenant, digest): 1}


async def test_missing_blob_raises_corrupt_with_its_digest(
    store: ContractStore, fresh_tenant: str
) -> None:
    with pytest.raises(Corrupt) as missed:
        await store.blobs.get_blob(fresh_tenant, compute_digest("nothing"))
    assert compute_digest("nothing") in missed.value.where


async def test_blob_belongs_to_its_tenant_only(store: ContractStore, fresh_tenant: str) -> None:
    digest = await store.blobs.put_blob(fresh_tenant, b"secret")
    with pytest.raises(Corrupt):
        await store.blobs.get_blob(f"{fresh_tenant}-2", digest)


async def test_bytes_that_do_not_match_their_digest_raise_corrupt(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    digest = compute_digest("what it was")
    js = jetstream.connection.nc.jetstream()
    await js.publish(build_blob_subject(fresh_tenant, digest), b"what it is now")
    with pytest.raises(Corrupt):
        await jetstream.blobs.get_blob(fresh_tenant, digest)


@pytest.mark.parametrize("place", ["before", "behind"])
async def test_stray_message_under_a_digest_neither_keeps_a_blob_out_nor_hides_it(
    jetstream: JetStreamClient, fresh_tenant: str, place: str
) -> None:
    digest = compute_digest("what was said")
    js = jetstream.connection.nc.jetstream()
    if place == "behind":
        await jetstream.blobs.put_blob(fresh_tenant, b"what was said")
    for _ in range(2):
        await js.publish(build_blob_subject(fresh_tenant, digest), b'{"type": "an answer"}')
    for _ in range(2):
        assert await jetstream.blobs.put_blob(fresh_tenant, b"what was said") == digest
    assert await jetstream.blobs.get_blob(fresh_tenant, digest) == b"what was said"
    stored = await js.stream_info(
        BLOBS_STREAM, subjects_filter=build_blob_subject(fresh_tenant, digest)
    )
    assert stored.state.subjects == {build_blob_subject(fresh_tenant, digest): 3}


@pytest.mark.parametrize("bad", ["", "sha256:", "sha256:" + "g" * 64, "sha256:" + "a" * 63 + ".>"])
async def test_invalid_digest_is_refused(
    jetstream: JetStreamClient, fresh_tenant: str, bad: str
) -> None:
    with pytest.raises(Refused):
        await jetstream.blobs.get_blob(fresh_tenant, bad)


async def test_blob_over_the_size_limit_is_refused_and_one_at_the_limit_is_stored(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    largest = b"x" * MAX_EVENT_BYTES
    digest = await jetstream.blobs.put_blob(fresh_tenant, largest)
    assert await jetstream.blobs.get_blob(fresh_tenant, digest) == largest
    with pytest.raises(TooLarge) as refusal:
        await jetstream.blobs.put_blob(fresh_tenant, largest + b"x")
    assert (refusal.value.size, refusal.value.limit) == (MAX_EVENT_BYTES + 1, MAX_EVENT_BYTES)


async def test_latest_snapshot_of_a_session_is_kept(
    store: ContractStore, fresh_tenant: str
) -> None:
    assert await store.snapshots.get_snapshot(fresh_tenant, "s") is None
    for state in (b"first", b"second"):
        await store.snapshots.put_snapshot(fresh_tenant, "s", state)
    assert await store.snapshots.get_snapshot(fresh_tenant, "s") == b"second"
    assert await store.snapshots.get_snapshot(fresh_tenant, "other") is None
    assert await store.snapshots.get_snapshot(f"{fresh_tenant}-2", "s") is None
