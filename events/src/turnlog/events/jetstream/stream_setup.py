"""Configuration of the streams, and their creation and verification.

SESSIONS, LIBRARY, ALERTS, READS, BLOBS, SNAPSHOTS and KEYS are durable; TOKENS is kept in memory
for a short time. The first five are the record: the server denies every delete and purge in them,
and the denial can never be lifted. Nothing of Turnlog needs one: erasing a text is a matter of its
key, snapshots are replaced by later ones, and tokens expire.

Missing streams are created. Existing ones are not changed, because they hold data, except that
streams of an earlier release get the denial, and that the compression of replicated ones is turned
off, which loses a log at a power loss. Any other setting that a guarantee depends on and that
differs is refused by name, with the way to fix it, before anything is written.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, JsonValue

from turnlog.events.codec import MAX_EVENT_BYTES
from turnlog.events.errors import Corrupt, TooLarge, Unavailable
from turnlog.events.jetstream.js_api import ARCHIVED_METADATA, JsApiError, request_json
from turnlog.events.jetstream.nats_connection import NatsConnection, RequestDenied, wait_backoff
from turnlog.events.subjects import (
    ALERT_HISTORY,
    ALERTS_STREAM,
    ALL_BLOB_SUBJECTS,
    ALL_KEY_SUBJECTS,
    ALL_SNAPSHOT_SUBJECTS,
    ALL_TOKEN_SUBJECTS,
    BLOBS_STREAM,
    KEYS_STREAM,
    LIBRARY_HISTORY,
    LIBRARY_STREAM,
    READ_HISTORY,
    READS_STREAM,
    REPUBLISH_PREFIX,
    SESSION_HISTORY,
    SESSIONS_STREAM,
    SNAPSHOTS_STREAM,
    TOKENS_STREAM,
)

TOKEN_STREAM_BYTES: Final = 128 * 1024 * 1024
"""Server memory for tokens; the oldest are dropped first."""

NANOSECONDS_PER_SECOND: Final = 10**9
"""Durations in server configurations are nanoseconds."""

JetStreamConfig = dict[str, JsonValue]
"""The configuration of a stream or a consumer."""

DELETE_DENIALS: Final[JetStreamConfig] = {"deny_delete": True, "deny_purge": True}
"""Settings by which a stream keeps every message; a server can add them and never remove them."""

FENCED_SUBJECTS: Final = ("turnlog.archive.fence",)
"""What SESSIONS takes while sessions are moved into the archive, so that nothing gets into it."""

UNCOMPRESSED: Final = "none"
"""The compression of a stream whose blocks are stored as they are."""

UNCOMPRESSED_SINCE: Final = "turnlog-uncompressed-since"
"""Where the metadata of a stream say when its compression was turned off, RFC 3339.

A nats-server that has run since before then compresses on until it is restarted.
"""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Stream options that differ between installations."""

    replicas: int = 1
    """Replicas of every stream."""
    token_retention: int = 600
    """Seconds for which tokens can be read back."""


def build_durable_streams(terms: StreamOptions) -> tuple[JetStreamConfig, ...]:
    """Return the configurations of all durable streams."""
    sessions = SESSION_HISTORY.build_filter()
    return (
        {
            **_build_append_only_stream(terms, SESSIONS_STREAM, sessions),
            "allow_atomic": True,
            "republish": _build_republish(sessions),
        },
        {
            **_build_append_only_stream(terms, LIBRARY_STREAM, LIBRARY_HISTORY.build_filter()),
            "allow_atomic": True,
        },
        {
            **_build_append_only_stream(terms, ALERTS_STREAM, ALERT_HISTORY.build_filter()),
            "allow_atomic": True,
        },
        {
            **_build_append_only_stream(terms, READS_STREAM, READ_HISTORY.build_filter()),
            "allow_atomic": True,
        },
        _build_append_only_stream(terms, BLOBS_STREAM, ALL_BLOB_SUBJECTS),
        _build_snapshot_stream(terms),
        _build_key_stream(terms),
    )


def _build_snapshot_stream(terms: StreamOptions) -> JetStreamConfig:
    return {
        **_build_durable_config(terms),
        "name": SNAPSHOTS_STREAM,
        "subjects": [ALL_SNAPSHOT_SUBJECTS],
        "discard": "old",
        "max_msgs_per_subject": 1,
    }


def _build_key_stream(terms: StreamOptions) -> JetStreamConfig:
    """Return the configuration of KEYS, which has the last record of each session.

    One that is replaced stays until it is deleted, since the server overwrites what is deleted, and
    leaves the bytes of what only has to give way.
    """
    return {
        **_build_durable_config(terms),
        "name": KEYS_STREAM,
        "subjects": [ALL_KEY_SUBJECTS],
        "discard": "old",
        "max_msgs_per_subject": 2,
        "compression": UNCOMPRESSED,
    }


def build_token_stream(terms: StreamOptions) -> JetStreamConfig:
    """Return the configuration of TOKENS."""
    return {
        "name": TOKENS_STREAM,
        "subjects": [ALL_TOKEN_SUBJECTS],
        "retention": "limits",
        "storage": "memory",
        "num_replicas": terms.replicas,
        "discard": "old",
        "max_age": terms.token_retention * NANOSECONDS_PER_SECOND,
        "max_bytes": TOKEN_STREAM_BYTES,
        "allow_direct": True,
        "republish": _build_republish(ALL_TOKEN_SUBJECTS),
    }


def _build_append_only_stream(terms: StreamOptions, name: str, subjects: str) -> JetStreamConfig:
    """Return the configuration of a stream that never drops a message."""
    return {
        **_build_durable_config(terms),
        "name": name,
        "subjects": [subjects],
        "discard": "new",
        "max_msgs_per_subject": -1,
        **DELETE_DENIALS,
    }


def _build_durable_config(terms: StreamOptions) -> JetStreamConfig:
    return {
        "retention": "limits",
        "storage": "file",
        "num_replicas": terms.replicas,
        "max_age": 0,
        "max_msg_size": MAX_MESSAGE_BYTES,
        "allow_direct": True,
        "allow_rollup_hdrs": False,
        "persist_mode": "default",
        # The envelopes of one session are much alike, but nats-server 2.15.1 ruins a compressed
        # replicated stream when it starts after a power loss (docs/decisions/raw-replicas.md).
        "compression": UNCOMPRESSED if terms.replicas > 1 else "s2",
    }


def _build_republish(subjects: str) -> JsonValue:
    return {"src": subjects, "dest": f"{REPUBLISH_PREFIX}.{subjects}"}


HEADER_BYTES: Final = 4096
"""Bytes reserved for headers; a server closes the connection on a message above its limit."""

MAX_MESSAGE_BYTES: Final = MAX_EVENT_BYTES + HEADER_BYTES
"""Maximum bytes of one stream message, including headers."""


def check_message_size(connection: NatsConnection, what: str, size: int) -> None:
    """Refuse a payload that the server or its streams would not accept."""
    limit = min(connection.nc.max_payload, MAX_MESSAGE_BYTES) - HEADER_BYTES
    if size > limit:
        raise TooLarge(what, size, limit)


STREAM_NOT_FOUND: Final = 10059


async def provision_streams(
    connection: NatsConnection, terms: StreamOptions, *, patience: float = 30.0
) -> None:
    """Create missing streams and verify all; raises `Corrupt` for an unusable server or stream."""
    if connection.nc.max_payload < MAX_MESSAGE_BYTES:
        actual = connection.nc.max_payload
        raise Corrupt(
            "nats-server, max_payload", f"is {actual}; make it {MAX_MESSAGE_BYTES} or more"
        )
    for config in (*build_durable_streams(terms), build_token_stream(terms)):
        await _ensure_stream(connection, config, patience)


async def provision_lost_streams(
    connection: NatsConnection, terms: StreamOptions, *, patience: float = 30.0
) -> None:
    """Create again, after a reconnect, what a restarted server lacks.

    It has lost TOKENS, and SNAPSHOTS where those were dropped.
    """
    for config in (build_token_stream(terms), _build_snapshot_stream(terms)):
        await _ensure_stream(connection, config, patience)


def check_config(what: str, required: JetStreamConfig, effective: JetStreamConfig) -> None:
    """Refuse settings that differ from `required`; a server omits those with their default."""
    for setting, value in required.items():
        if setting == "compression" and effective.get(setting, UNCOMPRESSED) == UNCOMPRESSED:
            continue  # What is not compressed is safe everywhere, and only larger.
        actual = effective.get(setting, "default" if setting == "persist_mode" else None)
        if actual != value:
            raise Corrupt(
                f"{what}, {setting}",
                f"is {json.dumps(actual)} and must be {json.dumps(value)}: "
                f"edit the {what} with the `nats` tool, or use another NATS",
            )


async def _ensure_stream(
    connection: NatsConnection, config: JetStreamConfig, patience: float
) -> None:
    ends = asyncio.get_running_loop().time() + patience
    failures = 0
    while True:
        try:
            found = await _find_or_create_stream(connection, config)
            effective = await _update_earlier_stream(connection, config, found)
            _check_archive(connection, config, effective)
            return check_config(f"stream {config['name']}", config, effective)
        except Unavailable as error:
            # Also if another process created the stream meanwhile: the next try finds it.
            if asyncio.get_running_loop().time() > ends:
                if isinstance(error, _CompressionKept):
                    raise _refuse_compression(f"stream {config['name']}", error) from error
                raise
            failures += 1
            await wait_backoff(failures)


def get_metadata(config: JetStreamConfig) -> Mapping[str, str]:
    """Return the metadata of a stream."""
    found = config.get("metadata")
    return {name: str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _check_archive(
    connection: NatsConnection, config: JetStreamConfig, effective: JetStreamConfig
) -> None:
    """Refuse to read a stream without what was moved out of it, or while sessions are moved."""
    stream = str(config["name"])
    if effective.get("subjects") == list(FENCED_SUBJECTS):
        detail = "sessions are being moved into the archive, or a run was interrupted"
        raise Unavailable(f"stream {stream}", f"{detail}: run `turnlog archive finish`")
    archive = connection.find_archive(stream)
    moved = int(get_metadata(effective).get(ARCHIVED_METADATA, 0))
    there = archive.count if archive else 0
    if moved != there:
        detail = f"{moved} of its messages were moved into an archive, and {there} are found there"
        fix = "set TURNLOG_ARCHIVE to its folder, or restore that from a backup"
        raise Corrupt(f"stream {stream}", f"{detail}: {fix}")


class _StreamConfigReply(BaseModel):
    config: JetStreamConfig
    ts: str = ""
    """The server's clock, RFC 3339."""


async def _find_or_create_stream(
    connection: NatsConnection, config: JetStreamConfig
) -> _StreamConfigReply:
    name = config["name"]
    try:
        return await request_json(connection, f"$JS.API.STREAM.INFO.{name}", _StreamConfigReply)
    except JsApiError as denied:
        if denied.code != STREAM_NOT_FOUND:
            raise
    if name == SESSIONS_STREAM:
        await _require_empty_record(connection)
    payload = json.dumps(config | _choose_first_sequence(config)).encode()
    try:
        return await request_json(
            connection, f"$JS.API.STREAM.CREATE.{name}", _StreamConfigReply, payload
        )
    except RequestDenied as denied:
        raise _build_unprovisioned(f"stream {name}", "does not exist") from denied


async def _require_empty_record(connection: NatsConnection) -> None:
    """Refuse to begin a log of sessions where the library of an earlier one is.

    Sessions may be on their way into the archive, or the stream is lost: an empty one would hide
    it.
    """
    subject = f"$JS.API.STREAM.INFO.{LIBRARY_STREAM}"
    try:
        await request_json(connection, subject, _StreamConfigReply)
    except JsApiError as denied:
        if denied.code != STREAM_NOT_FOUND:
            raise
        return
    detail = f"is missing, and {LIBRARY_STREAM} is there: run `turnlog archive finish` if a run of"
    fix = "`turnlog archive sessions` was interrupted, otherwise restore the stream from a backup"
    raise Corrupt(f"stream {SESSIONS_STREAM}", f"{detail} {fix}")


def _build_unprovisioned(stream: str, fault: str) -> Unavailable:
    detail = f"{fault}, and this login may not mend that: run `turnlog provision`"
    return Unavailable(stream, f"{detail} with the login `provision`")


async def _update_earlier_stream(
    connection: NatsConnection, config: JetStreamConfig, found: _StreamConfigReply
) -> JetStreamConfig:
    """Change what a stream of an earlier release lacks; return the effective configuration."""
    effective = found.config
    changes: JetStreamConfig = {
        name: True for name in DELETE_DENIALS if name in config and not effective.get(name)
    }
    if is_ruined_by_power_loss(effective):
        changes |= {
            "compression": UNCOMPRESSED,
            "metadata": {**get_metadata(effective), UNCOMPRESSED_SINCE: found.ts},
        }
    if not changes:
        return effective
    subject = f"$JS.API.STREAM.UPDATE.{config['name']}"
    payload = json.dumps(effective | changes).encode()
    try:
        updated = await request_json(connection, subject, _StreamConfigReply, payload)
    except RequestDenied as denied:
        raise _build_unprovisioned(
            f"stream {config['name']}", "is of an earlier release"
        ) from denied
    except Unavailable as error:
        if "compression" in changes:
            raise _CompressionKept(error.what, error.detail) from error
        raise
    if "compression" in changes:
        _log.warning(
            "compression-disabled: stream %s; restart the nats-servers in good order, one after"
            " the other: until then they compress on, and a power loss can destroy it",
            config["name"],
        )
    return updated.config


def is_ruined_by_power_loss(effective: JetStreamConfig) -> bool:
    """Return whether a stream is replicated and compressed."""
    replicas = effective.get("num_replicas", 1)
    is_compressed = effective.get("compression", UNCOMPRESSED) != UNCOMPRESSED
    return is_compressed and isinstance(replicas, int) and replicas > 1


class _CompressionKept(Unavailable):
    """The compression of a replicated stream could not be turned off."""


def _refuse_compression(what: str, kept: _CompressionKept) -> Corrupt:
    return Corrupt(
        f"{what}, compression",
        "must be none, since nats-server makes a compressed stream with replicas unreadable when it"
        f" starts after a power loss, and it could not be turned off ({kept.detail}): set it to"
        " none with the `nats` tool, then restart the servers in good order, one after the other",
    )


def _choose_first_sequence(config: JetStreamConfig) -> JetStreamConfig:
    """Start TOKENS at a sequence that no earlier TOKENS can have reached."""
    return {"first_seq": int(time.time() * 1000)} if config["name"] == TOKENS_STREAM else {}
