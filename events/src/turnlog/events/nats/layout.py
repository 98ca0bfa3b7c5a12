"""The streams Turnlog lives on, in the server's own words, and what of them may differ.

SESSIONS, LIBRARY, BLOBS and SNAPSHOTS last; TOKENS lives in memory for a short while. Nothing
here talks to a server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from turnlog.events import ids
from turnlog.events.nats.sizes import MAX_MESSAGE

TOKEN_BYTES: Final = 128 * 1024 * 1024
"""Server memory for tokens in flight; the oldest go first."""
SECOND: Final = 10**9
"""The server counts nanoseconds."""

Settings = dict[str, JsonValue]
"""The configuration of a stream or a consumer."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What differs from one installation to another."""

    replicas: int = 1
    """Copies of every stream."""
    tokens_held: int = 600
    """Seconds for which tokens can be read back."""


def lasting_streams(terms: Terms) -> tuple[Settings, ...]:
    """Settings of the streams that must never lose anything, or may only lose what is stale."""
    return _sessions(terms), _library(terms), _blobs(terms), _snapshots(terms)


def token_stream(terms: Terms) -> Settings:
    """Settings of TOKENS."""
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
    """Give the settings of a stream from which nothing ever goes."""
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
        # Blocks that are full are kept compressed: envelopes of one session are much alike
        "compression": "s2",
    }


def _live(subjects: str) -> JsonValue:
    return {"src": subjects, "dest": f"{ids.LIVE}.{subjects}"}
