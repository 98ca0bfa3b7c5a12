"""Streams and subjects: where each kind of message is published and stored.

A tenant and a history are one token of a subject each, so a filter can select either. Every id is
validated first; no other module builds a subject.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from turnlog.events.content import DIGEST_PATTERN, Digest
from turnlog.events.errors import Refused
from turnlog.events.ids import validate_id

_DIGEST_REGEX: Final = re.compile(DIGEST_PATTERN)

SEALED_NAME: Final = "sealed-sha256:"
"""How the name begins that a sealed media item is stored under; it is not the item's digest."""

_MEDIA_NAME_REGEX: Final = re.compile(r"((hmac-|sealed-)?sha256):[0-9a-f]{64}")


SESSIONS_STREAM: Final = "SESSIONS"


LIBRARY_STREAM: Final = "LIBRARY"


ALERTS_STREAM: Final = "ALERTS"


READS_STREAM: Final = "READS"


TOKENS_STREAM: Final = "TOKENS"


BLOBS_STREAM: Final = "BLOBS"


SNAPSHOTS_STREAM: Final = "SNAPSHOTS"


KEYS_STREAM: Final = "KEYS"
"""The keys of sealed sessions; it is apart from the record, since keys can be taken away."""


RECORD_STREAMS: Final = (
    SESSIONS_STREAM,
    LIBRARY_STREAM,
    ALERTS_STREAM,
    READS_STREAM,
    BLOBS_STREAM,
)
"""The streams that are the record: none of their messages may ever be missing."""


SERVICE_INBOX: Final = "_TURNLOG"
"""What the inboxes of Turnlog's own processes begin with; a consumer's login sees none of them."""


ALL_TOKEN_SUBJECTS: Final = "tokens.>"  # noqa: S105 - a subject


ALL_BLOB_SUBJECTS: Final = "blob.>"


MEDIA_PREFIX: Final = "media-"
"""What the digest begins with that names the list of a media item's chunks in its subject."""


ALL_SNAPSHOT_SUBJECTS: Final = "snapshot.>"


ALL_KEY_SUBJECTS: Final = "key.>"


WORKERS_CONSUMER: Final = "workers"
"""The durable consumer of `SESSIONS` that all workers share."""


CLAIMABLE_TURN_SUBJECTS: Final = ("session.*.*.turn.submitted", "session.*.*.turn.released")
"""Subjects of the events that workers wait for."""


REPUBLISH_PREFIX: Final = "live"
"""Prefix of republished messages: `session.a.b.turn` is republished as `live.session.a.b.turn`."""


POSITIONS_SUBJECT: Final = "turnlog.folded-positions"
"""Where gateways and projectors answer with what their read models are folded to."""


SEARCH_SUBJECT: Final = "turnlog.knowledge-search"
"""Where projectors answer searches of knowledge."""


NOTES_TENANT: Final = "_record"
"""Where the notes of what reading the streams has found are kept, in place of a tenant: snapshots
whose session is the stream.
"""


LEASE_TENANT: Final = "_webhooks"
"""Where the signs of life of who delivers webhooks are, in place of a tenant, so that no reader of
a tenant's tokens sees them.
"""


@dataclass(frozen=True, slots=True)
class HistoryKind:
    """A kind of history: the stream that holds it and the subjects of its events.

    A history is chained and appended to as one: a session, a family of a tenant's library, an
    alert, or a day of the log of reads.
    """

    stream: str
    prefix: str
    """The first token of its subjects."""
    id_name: str
    """What its id is called when an id is refused."""

    def find_stream(self, tenant: str) -> str:
        """Return the name of the stream that holds a tenant's histories.

        All tenants share one stream today; a large tenant could get its own.
        """
        validate_id(tenant, "tenant")
        return self.stream

    def build_subject(self, tenant: str, history: str, leaf: str) -> str:
        """Return the subject of one event; `leaf` is a constant of the event class."""
        owner = validate_id(tenant, "tenant")
        return f"{self.prefix}.{owner}.{validate_id(history, self.id_name)}.{leaf}"

    def build_leaf_filter(self, tenant: str, leaf: str) -> str:
        """Return the subject filter for the events of a tenant with this leaf."""
        return f"{self.prefix}.{validate_id(tenant, 'tenant')}.*.{leaf}"

    def build_filter(self, tenant: str | None = None, history: str | None = None) -> str:
        """Return the subject filter for all events of a history, of a tenant, or of all tenants."""
        if tenant is None:
            return f"{self.prefix}.>"
        if history is None:
            return f"{self.prefix}.{validate_id(tenant, 'tenant')}.>"
        return self.build_subject(tenant, history, ">")

    def build_shared_filter(self, history: str) -> str:
        """Return the subject filter for the events of the histories of this id of all tenants."""
        return f"{self.prefix}.*.{validate_id(history, self.id_name)}.>"


SESSION_HISTORY: Final = HistoryKind(SESSIONS_STREAM, "session", "session")


LIBRARY_HISTORY: Final = HistoryKind(LIBRARY_STREAM, "library", "family")


ALERT_HISTORY: Final = HistoryKind(ALERTS_STREAM, "alert", "alert")


READ_HISTORY: Final = HistoryKind(READS_STREAM, "read", "day")


def build_token_subject(tenant: str, session: str, turn: int) -> str:
    """Return the subject on which the tokens of one turn are published."""
    return f"tokens.{validate_id(tenant, 'tenant')}.{validate_id(session, 'session')}.{turn}"


def build_token_filter(tenant: str | None, session: str | None) -> str:
    """Return the subject filter for the tokens of a session, of a tenant, or of all tenants."""
    if tenant is None:
        return ALL_TOKEN_SUBJECTS
    if session is None:
        return f"tokens.{validate_id(tenant, 'tenant')}.>"
    return f"tokens.{validate_id(tenant, 'tenant')}.{validate_id(session, 'session')}.>"


def build_blob_subject(tenant: str, digest: Digest) -> str:
    """Return the subject that holds one blob; refuses anything that is not a digest."""
    if _DIGEST_REGEX.fullmatch(digest) is None:
        raise Refused("bad-digest", f"{digest[:80]!r} is not a digest", field="digest")
    return f"blob.{validate_id(tenant, 'tenant')}.{digest.replace(':', '-')}"


def build_blob_filter(tenant: str) -> str:
    """Return the subject filter for all blobs of a tenant."""
    return f"blob.{validate_id(tenant, 'tenant')}.>"


def parse_blob_subject(subject: str) -> tuple[str, Digest]:
    """Return the tenant and the digest from the subject of a blob.

    The list of a media item's chunks has a digest that begins with `media-sha256:`.
    """
    _, tenant, name = subject.split(".", 2)
    algorithm, _, value = name.rpartition("-")
    return tenant, f"{algorithm}:{value}"


def build_media_subject(tenant: str, digest: Digest) -> str:
    """Return the subject of the list of a media item's chunks; refuses what is no digest."""
    if _MEDIA_NAME_REGEX.fullmatch(digest) is None:
        raise Refused("bad-digest", f"{digest[:80]!r} is not a digest", field="digest")
    return f"blob.{validate_id(tenant, 'tenant')}.{MEDIA_PREFIX}{digest.replace(':', '-')}"


def name_sealed_item(digest: Digest) -> str:
    """Return the name that an item is stored under whose digest is keyed.

    It is found without a key, and does not say the digest.
    """
    return f"{SEALED_NAME}{sha256(digest.encode()).hexdigest()}"


def build_sealed_text_subject(tenant: str, digest: Digest) -> str:
    """Return the subject of a text of the library whose digest is keyed; it does not say that."""
    name = name_sealed_item(digest).replace(":", "-")
    return f"blob.{validate_id(tenant, 'tenant')}.{name}"


def build_snapshot_subject(tenant: str, session: str, interval: int | None = None) -> str:
    """Return the subject of a session's latest snapshot, or of one of its interval snapshots."""
    latest = f"snapshot.{validate_id(tenant, 'tenant')}.{validate_id(session, 'session')}"
    return latest if interval is None else f"{latest}.{interval}"


def build_key_subject(tenant: str, session: str) -> str:
    """Return the subject of the record with the keys of a session."""
    return f"key.{validate_id(tenant, 'tenant')}.{validate_id(session, 'session')}"


def parse_key_subject(subject: str) -> tuple[str, str]:
    """Return tenant and session from the subject of a record of keys."""
    _, tenant, session = subject.split(".")
    return tenant, session
