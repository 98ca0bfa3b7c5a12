"""Identifiers, and the NATS subjects built from them.

Every id is validated before it becomes part of a subject, so that a tenant cannot address another
tenant's sessions. No other module builds a subject.
"""

from __future__ import annotations

import re
from typing import Final

from turnlog.events.content import Digest
from turnlog.events.errors import Refused

ID_PATTERN: Final = "[A-Za-z0-9_-]{1,64}"
"""Regular expression of an id."""
_ID_REGEX: Final = re.compile(ID_PATTERN)
_DIGEST_REGEX: Final = re.compile(r"(sha256|hmac-sha256):[0-9a-f]{64}")

SESSIONS_STREAM: Final = "SESSIONS"
LIBRARY_STREAM: Final = "LIBRARY"
TOKENS_STREAM: Final = "TOKENS"
BLOBS_STREAM: Final = "BLOBS"
SNAPSHOTS_STREAM: Final = "SNAPSHOTS"
ALL_SESSION_SUBJECTS: Final = "session.>"
ALL_LIBRARY_SUBJECTS: Final = "library.>"
ALL_TOKEN_SUBJECTS: Final = "tokens.>"  # noqa: S105 - a subject
ALL_BLOB_SUBJECTS: Final = "blob.>"
ALL_SNAPSHOT_SUBJECTS: Final = "snapshot.>"
CLAIMABLE_TURN_SUBJECTS: Final = ("session.*.*.turn.submitted", "session.*.*.turn.released")
"""Subjects of the events that workers wait for."""
REPUBLISH_PREFIX: Final = "live"
"""Prefix of republished messages: `session.a.b.turn` is republished as `live.session.a.b.turn`."""


def validate_id(value: str, field: str) -> str:
    """Return `value`, or refuse it and name `field`; an id has 1 to 64 of `A-Z a-z 0-9 _ -`."""
    if _ID_REGEX.fullmatch(value) is None:
        raise Refused(
            "bad-id",
            f"{value[:80]!r} is not an id",
            field=field,
            fix="use 1 to 64 of the characters A-Z a-z 0-9 _ -",
        )
    return value


def find_session_stream(tenant: str) -> str:
    """Return the name of the stream that holds a tenant's sessions.

    All tenants share one stream today; a large tenant could get its own.
    """
    validate_id(tenant, "tenant")
    return SESSIONS_STREAM


def build_session_subject(tenant: str, session: str, leaf: str) -> str:
    """Return the subject of one event; `leaf` is a constant of the event class."""
    return f"session.{validate_id(tenant, 'tenant')}.{validate_id(session, 'session')}.{leaf}"


def build_session_filter(tenant: str, session: str | None = None) -> str:
    """Return the subject filter for all events of a session, or of a tenant."""
    if session is None:
        return f"session.{validate_id(tenant, 'tenant')}.>"
    return build_session_subject(tenant, session, ">")


def build_library_subject(tenant: str, family: str, leaf: str) -> str:
    """Return the subject of one library event; with `>` as leaf, the filter for all of them."""
    return f"library.{validate_id(tenant, 'tenant')}.{validate_id(family, 'family')}.{leaf}"


def build_token_subject(tenant: str, session: str, turn: int) -> str:
    """Return the subject on which the tokens of one turn are published."""
    return f"tokens.{validate_id(tenant, 'tenant')}.{validate_id(session, 'session')}.{turn}"


def build_token_filter(tenant: str, session: str | None = None) -> str:
    """Return the subject filter for all tokens of a session, or of a tenant."""
    if session is None:
        return f"tokens.{validate_id(tenant, 'tenant')}.>"
    return f"tokens.{validate_id(tenant, 'tenant')}.{validate_id(session, 'session')}.*"


def build_blob_subject(tenant: str, digest: Digest) -> str:
    """Return the subject that holds one blob; refuses anything that is not a digest."""
    if _DIGEST_REGEX.fullmatch(digest) is None:
        raise Refused("bad-digest", f"{digest[:80]!r} is not a digest", field="digest")
    return f"blob.{validate_id(tenant, 'tenant')}.{digest.replace(':', '-')}"


def build_snapshot_subject(tenant: str, session: str, interval: int | None = None) -> str:
    """Return the subject of a session's latest snapshot, or of one of its interval snapshots."""
    latest = f"snapshot.{validate_id(tenant, 'tenant')}.{validate_id(session, 'session')}"
    return latest if interval is None else f"{latest}.{interval}"
