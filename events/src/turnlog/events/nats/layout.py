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
from turnlog.events.nats.sizes import MAX_MESSAGE

TOKEN_BYTES: Final = 128 * 1024 * 1024
"""Server memory for tokens; the oldest are dropped first."""
SECOND: Final = 10**9
"""Durations in server configurations are nanoseconds."""

Settings = dict[str, JsonValue]
"""The configuration of a stream or a consumer."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Stream options that differ between installations."""

    replicas: int = 1
    """Replicas of every stream."""
    tokens_held: int = 600
    """Seconds for which tokens can be read back."""


def lasting_streams(terms: Terms) -> tuple[Settings, ...]:
    """Return the configurations of all durable streams."""
    return _sessions(terms), _library(terms), _blobs(terms), _snapshots(terms)


def token_stream(terms: Terms) -> Settings:
    """Return the configuration of TOKENS."""
    return {
        "name": ids.TOKENS,
        "subjects": [ids.ALL_TOKENS],
        "retention": "limits",
        "storage": "memory",
        "num_replicas": terms.replicas,
        "discard": "old",
        "max_age": terms.tokens_held * SECOND,
        "max_bytes": TOKEN_BYTES,
        "allow_direct": True,
        "republish": _live(ids.ALL_TOKENS),
    }


def _sessions(terms: Terms) -> Settings:
    whole = _whole(terms, ids.SESSIONS, ids.ALL_SESSIONS)
    return {**whole, "allow_atomic": True, "republish": _live(ids.ALL_SESSIONS)}


def _library(terms: Terms) -> Settings:
    return {**_whole(terms, ids.LIBRARY, ids.ALL_LIBRARY), "allow_atomic": True}


def _blobs(terms: Terms) -> Settings:
    return _whole(terms, ids.BLOBS, ids.ALL_BLOBS)


def _snapshots(terms: Terms) -> Settings:
    return {
        **_lasting(terms),
        "name": ids.SNAPSHOTS,
        "subjects": [ids.ALL_SNAPSHOTS],
        "discard": "old",
        "max_msgs_per_subject": 1,
    }


def _whole(terms: Terms, name: str, subjects: str) -> Settings:
    """Return the configuration of a stream that never drops a message."""
    return {
        **_lasting(terms),
        "name": name,
        "subjects": [subjects],
        "discard": "new",
        "max_msgs_per_subject": -1,
    }


def _lasting(terms: Terms) -> Settings:
    return {
        "retention": "limits",
        "storage": "file",
        "num_replicas": terms.replicas,
        "max_age": 0,
        "max_msg_size": MAX_MESSAGE,
        "allow_direct": True,
        "allow_rollup_hdrs": False,
        "persist_mode": "default",
        # Compression: the envelopes of one session are much alike.
        "compression": "s2",
    }


def _live(subjects: str) -> JsonValue:
    return {"src": subjects, "dest": f"{ids.LIVE}.{subjects}"}
