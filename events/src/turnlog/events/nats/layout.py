"""Configuration of the streams and of the work queue, and their creation and verification.

SESSIONS, LIBRARY, BLOBS and SNAPSHOTS are durable; TOKENS is kept in memory for a short time.
Missing streams are created. Existing ones are never changed, because they hold data: a setting that
a guarantee depends on and that differs is refused by name, with the way to fix it, before anything
is written. Workers share one durable consumer, which never drops a turn: the session decides how
often a turn is tried, not the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from turnlog.events import ids
from turnlog.events.nats.sizes import MAX_MESSAGE_BYTES

TOKEN_STREAM_BYTES: Final = 128 * 1024 * 1024
"""Server memory for tokens; the oldest are dropped first."""
NANOSECONDS_PER_SECOND: Final = 10**9
"""Durations in server configurations are nanoseconds."""

JetStreamConfig = dict[str, JsonValue]
"""The configuration of a stream or a consumer."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Stream options that differ between installations."""

    replicas: int = 1
    """Replicas of every stream."""
    token_retention: int = 600
    """Seconds for which tokens can be read back."""


def build_durable_streams(terms: StreamOptions) -> tuple[JetStreamConfig, ...]:
    """Return the configurations of all durable streams."""
    return _build_sessions_stream(terms), _build_library_stream(terms), _build_blobs_stream(terms), _build_snapshots_stream(terms)


def build_token_stream(terms: StreamOptions) -> JetStreamConfig:
    """Return the configuration of TOKENS."""
    return {
        "name": ids.TOKENS_STREAM,
        "subjects": [ids.ALL_TOKEN_SUBJECTS],
        "retention": "limits",
        "storage": "memory",
        "num_replicas": terms.replicas,
        "discard": "old",
        "max_age": terms.token_retention * NANOSECONDS_PER_SECOND,
        "max_bytes": TOKEN_STREAM_BYTES,
        "allow_direct": True,
        "republish": _build_republish(ids.ALL_TOKEN_SUBJECTS),
    }


def _build_sessions_stream(terms: StreamOptions) -> JetStreamConfig:
    whole = _build_append_only_stream(terms, ids.SESSIONS_STREAM, ids.ALL_SESSION_SUBJECTS)
    return {**whole, "allow_atomic": True, "republish": _build_republish(ids.ALL_SESSION_SUBJECTS)}


def _build_library_stream(terms: StreamOptions) -> JetStreamConfig:
    return {**_build_append_only_stream(terms, ids.LIBRARY_STREAM, ids.ALL_LIBRARY_SUBJECTS), "allow_atomic": True}


def _build_blobs_stream(terms: StreamOptions) -> JetStreamConfig:
    return _build_append_only_stream(terms, ids.BLOBS_STREAM, ids.ALL_BLOB_SUBJECTS)


def _build_snapshots_stream(terms: StreamOptions) -> JetStreamConfig:
    return {
        **_build_durable_config(terms),
        "name": ids.SNAPSHOTS_STREAM,
        "subjects": [ids.ALL_SNAPSHOT_SUBJECTS],
        "discard": "old",
        "max_msgs_per_subject": 1,
    }


def _build_append_only_stream(terms: StreamOptions, name: str, subjects: str) -> JetStreamConfig:
    """Return the configuration of a stream that never drops a message."""
    return {
        **_build_durable_config(terms),
        "name": name,
        "subjects": [subjects],
        "discard": "new",
        "max_msgs_per_subject": -1,
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
        # Compression: the envelopes of one session are much alike.
        "compression": "s2",
    }


def _build_republish(subjects: str) -> JsonValue:
    return {"src": subjects, "dest": f"{ids.REPUBLISH_PREFIX}.{subjects}"}
