"""Identifiers, and the NATS subjects built from them.

Every id is validated before it becomes part of a subject, so that a tenant cannot address another
tenant's sessions. No other module builds a subject.
"""

from __future__ import annotations

import re
from typing import Final

from turnlog.events.content import Digest
from turnlog.events.errors import Refused

ID: Final = "[A-Za-z0-9_-]{1,64}"
"""Regular expression of an id."""
_ID: Final = re.compile(ID)
_DIGEST: Final = re.compile(r"(sha256|hmac-sha256):[0-9a-f]{64}")

SESSIONS: Final = "SESSIONS"
LIBRARY: Final = "LIBRARY"
TOKENS: Final = "TOKENS"
BLOBS: Final = "BLOBS"
SNAPSHOTS: Final = "SNAPSHOTS"
ALL_SESSIONS: Final = "session.>"
ALL_LIBRARY: Final = "library.>"
ALL_TOKENS: Final = "tokens.>"
ALL_BLOBS: Final = "blob.>"
ALL_SNAPSHOTS: Final = "snapshot.>"
TURNS_TO_TAKE: Final = ("session.*.*.turn.submitted", "session.*.*.turn.released")
"""Subjects of the events that workers wait for."""
LIVE: Final = "live"
"""Prefix of republished messages: `session.a.b.turn` is republished as `live.session.a.b.turn`."""


def checked_id(value: str, field: str) -> str:
    """Return `value`, or refuse it and name `field`; an id has 1 to 64 of `A-Z a-z 0-9 _ -`."""
    if _ID.fullmatch(value) is None:
        raise Refused(
            "bad-id",
            f"{value[:80]!r} is not an id",
            field=field,
            fix="use 1 to 64 of the characters A-Z a-z 0-9 _ -",
        )
    return value


def stream_of(tenant: str) -> str:
    """Return the name of the stream that holds a tenant's sessions.

    All tenants share one stream today; a large tenant could get its own.
    """
    checked_id(tenant, "tenant")
    return SESSIONS


def session_subject(tenant: str, session: str, leaf: str) -> str:
    """Return the subject of one event; `leaf` is a constant of the event class."""
    return f"session.{checked_id(tenant, 'tenant')}.{checked_id(session, 'session')}.{leaf}"


def session_subjects(tenant: str, session: str | None = None) -> str:
    """Return the subject filter for all events of a session, or of a tenant."""
    if session is None:
        return f"session.{checked_id(tenant, 'tenant')}.>"
    return session_subject(tenant, session, ">")


def library_subject(tenant: str, family: str, leaf: str) -> str:
    """Return the subject of one library event; with `>` as leaf, the filter for all of them."""
    return f"library.{checked_id(tenant, 'tenant')}.{checked_id(family, 'family')}.{leaf}"


def token_subject(tenant: str, session: str, turn: int) -> str:
    """Return the subject on which the tokens of one turn are published."""
    return f"tokens.{checked_id(tenant, 'tenant')}.{checked_id(session, 'session')}.{turn}"


def token_subjects(tenant: str, session: str | None = None) -> str:
    """Return the subject filter for all tokens of a session, or of a tenant."""
    if session is None:
        return f"tokens.{checked_id(tenant, 'tenant')}.>"
    return f"tokens.{checked_id(tenant, 'tenant')}.{checked_id(session, 'session')}.*"


def blob_subject(tenant: str, digest: Digest) -> str:
    """Return the subject that holds one blob; refuses anything that is not a digest."""
    if _DIGEST.fullmatch(digest) is None:
        raise Refused("bad-digest", f"{digest[:80]!r} is not a digest", field="digest")
    return f"blob.{checked_id(tenant, 'tenant')}.{digest.replace(':', '-')}"


def snapshot_subject(tenant: str, session: str, waypoint: int | None = None) -> str:
    """Return the subject of a session's latest snapshot, or of one of its interval snapshots."""
    latest = f"snapshot.{checked_id(tenant, 'tenant')}.{checked_id(session, 'session')}"
    return latest if waypoint is None else f"{latest}.{waypoint}"
