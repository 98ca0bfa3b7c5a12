"""Sealed pictures and files on a real server: what is stored of them, and who reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from tests.events.seals.test_session_keys import KEYRING, get_keys, open_again, store_tree
from turnlog.events.content import Digest, compute_digest
from turnlog.events.errors import AlteredMedia, KeyringMissing, KeysErased, Refused
from turnlog.events.jetstream.blob_store import JetStreamMediaStore
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.js_api import PublishAck, request_json
from turnlog.events.jetstream.session_keys import parse_record
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.seals.key_tree import KeyTree
from turnlog.events.store.media_chunks import (
    CHUNK_BYTES,
    ReceivedMedia,
    StoredMedia,
    iterate_bytes,
    receive_media,
)
from turnlog.events.subjects import (
    BLOBS_STREAM,
    KEYS_STREAM,
    build_key_subject,
    build_media_subject,
    name_sealed_item,
)
from turnlog.projections.audit.verify.verdicts import NO_REPRODUCTIONS
from turnlog.projections.audit.verify.verification_report import (
    SessionTotals,
    VerificationReport,
)
from turnlog.services.audit.media_verification import MediaVerification
from turnlog.services.media.media_use_cases import MediaUseCases
from turnlog.services.platform.nats_server import NatsServer

PICTURE = b"qvx picture " * (CHUNK_BYTES // 8)
"""Two chunks."""

WORK = frozenset({3})


@pytest_asyncio.fixture
async def client(own_server: NatsServer) -> AsyncIterator[JetStreamClient]:
    """A client with a keyring, on a server of its own."""
    async with open_client(own_server.url, StreamOptions(), keyring=KEYRING) as opened:
        yield opened


async def receive(data: bytes) -> ReceivedMedia:
    return await receive_media(iterate_bytes(data), most_bytes=len(data), expected=None)


async def put_sealed(
    client: JetStreamClient, tenant: str, data: bytes, leaves: frozenset[int] = WORK
) -> Digest:
    """Store bytes under leaves of the session `s`."""
    digest, sealed = await client.media.seal_received(tenant, await receive(data), {"s": leaves})
    await client.media.put_received(tenant, sealed)
    return digest


async def put_upload(media: JetStreamMediaStore, tenant: str, data: bytes) -> str:
    """Store bytes as `POST /v1/blobs` does, and return the name that they are stored under."""
    sealed = await media.seal_upload(tenant, await receive(data))
    return (await media.put_received(tenant, sealed)).digest


async def list_stored(client: JetStreamClient) -> list[tuple[str, bytes]]:
    """Return the subject and the bytes of everything in the stream of blobs."""
    found = [raw async for page in client.blobs.stream_raw_blobs(0) for raw in page]
    return [(raw.subject, raw.stored) for raw in found]


async def test_picture_of_a_turn_is_stored_sealed_in_chunks_under_a_keyed_digest(
    client: JetStreamClient, fresh_tenant: str
) -> None:
    await get_keys(client).create_record(fresh_tenant, "s")
    digest = await put_sealed(client, fresh_tenant, PICTURE)
    assert digest.startswith("hmac-sha256:")
    before = await list_stored(client)
    assert await put_sealed(client, fresh_tenant, PICTURE) == digest
    assert await list_stored(client) == before
    assert await put_sealed(client, fresh_tenant, PICTURE, frozenset({5})) != digest
    plain = compute_digest(PICTURE).removeprefix("sha256:")
    for subject, stored in await list_stored(client):
        assert b"qvx picture" not in stored
        for digits in (plain, digest.removeprefix("hmac-sha256:")):
            assert digits not in subject
            assert digits.encode() not in stored
    reader, stranger = open_again(client, KEYRING), open_again(client, None)
    assert await reader.media.get_media(fresh_tenant, digest) == PICTURE
    assert await reader.media.find_media(fresh_tenant, compute_digest(PICTURE)) is None
    with pytest.raises(KeyringMissing, match="TURNLOG_KEYRING"):
        await stranger.media.get_media(fresh_tenant, digest)
    counted = [each async for each in stranger.media.iterate_media(fresh_tenant)]
    assert [each.size for each in counted] == 2 * [len(PICTURE)]
    for each in counted:
        # With every key and without its digest, which only an event has, none can be read.
        with pytest.raises(AlteredMedia):
            await reader.media.get_media(fresh_tenant, each.digest)


async def test_picture_is_gone_with_the_leaf_of_its_turn_and_those_of_other_turns_stay(
    client: JetStreamClient, fresh_tenant: str
) -> None:
    await get_keys(client).create_record(fresh_tenant, "s")
    digest = await put_sealed(client, fresh_tenant, PICTURE)
    other = await put_sealed(client, fresh_tenant, PICTURE, frozenset({5}))
    js = client.connection.nc.jetstream()
    record = (await js.get_last_msg(KEYS_STREAM, build_key_subject(fresh_tenant, "s"))).data
    assert record is not None
    keys = await KEYRING.unwrap_keys(fresh_tenant, parse_record("s", record))
    await store_tree(client, fresh_tenant, KeyTree.decode(keys).remove_leaves(WORK))
    reader = open_again(client, KEYRING)
    with pytest.raises(KeysErased):
        await reader.media.get_media(fresh_tenant, digest)
    downloads = MediaUseCases(store=reader.media, most_bytes=len(PICTURE))
    for read in (downloads.open_media, downloads.find_media):
        with pytest.raises(Refused, match="unknown-blob: what was said in its turn was erased"):
            await read(fresh_tenant, digest)
    report = VerificationReport(
        head=None,
        events=0,
        prompts=NO_REPRODUCTIONS,
        totals=SessionTotals(sequence=0),
        findings=(),
        media={digest: 2, other: 4},
    )
    assert await MediaVerification().verify_media(reader.media, fresh_tenant, report) == report
    assert await reader.media.get_media(fresh_tenant, other) == PICTURE


async def test_list_that_names_the_chunks_of_another_picture_is_found_out(
    client: JetStreamClient, fresh_tenant: str
) -> None:
    await get_keys(client).create_record(fresh_tenant, "s")
    digest = await put_sealed(client, fresh_tenant, b"a picture")
    js = client.connection.nc.jetstream()
    subject = build_media_subject(fresh_tenant, name_sealed_item(digest))
    stored = (await js.get_last_msg(BLOBS_STREAM, subject)).data
    assert stored is not None
    forged = digest[:-1] + ("0" if digest[-1] != "0" else "1")
    subject = build_media_subject(fresh_tenant, name_sealed_item(forged))
    await request_json(client.connection, subject, PublishAck, stored)
    # The keys of the turn open no chunk without the digest of its picture.
    with pytest.raises(AlteredMedia, match="chunk 1 of 1"):
        await client.media.get_media(fresh_tenant, forged)


async def test_upload_is_found_by_the_digest_of_its_bytes_of_which_the_store_has_no_trace(
    client: JetStreamClient, fresh_tenant: str
) -> None:
    media = replace(client.media, seals_uploads=True)
    digest = compute_digest(PICTURE)
    assert await media.find_media(fresh_tenant, digest) is None
    name = await put_upload(media, fresh_tenant, PICTURE)
    before = await list_stored(client)
    assert await put_upload(media, fresh_tenant, PICTURE) == name
    assert await list_stored(client) == before
    for subject, stored in before:
        assert b"qvx picture" not in stored
        assert digest.removeprefix("sha256:") not in subject
        assert digest.removeprefix("sha256:").encode() not in stored
    reader = open_again(client, KEYRING)
    assert await reader.media.find_media(fresh_tenant, digest) == StoredMedia(digest, len(PICTURE))
    assert await reader.media.get_media(fresh_tenant, digest) == PICTURE
    with pytest.raises(AlteredMedia):
        # The keys of the tenant alone open no upload: they follow from its digest too.
        await reader.media.get_media(fresh_tenant, name)
    assert await open_again(client, None).media.find_media(fresh_tenant, digest) is None
