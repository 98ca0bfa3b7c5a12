"""What each login of NATS may publish and subscribe to: one table.

`turnlog keys nats` writes the users of a server from it, `docs/reference/nats-permissions.md` is
generated from it, and tests try every line of it on a server. All tenants share the streams, so a
line holds for every tenant: gateways keep tenants apart, and no tenant has a login of NATS.

A server does not look into requests. What a consumer reads is in the subject of the request that
creates it; where an answer is sent to is not, and `docs/nats-logins.md` says what follows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal, get_args

from turnlog.events.model.alert_events import ALERT_RULES_FAMILY
from turnlog.events.model.installation.access_events import INSTALLATION_TENANT
from turnlog.events.model.installation.retention_events import RETENTION_FAMILY
from turnlog.events.model.knowledge_events import KNOWLEDGE_FAMILY
from turnlog.events.model.override_events import OVERRIDE_FAMILY
from turnlog.events.model.quota_events import QUOTA_LIMITS_FAMILY
from turnlog.events.model.segment_events import SEGMENT_FAMILY
from turnlog.events.model.webhook_events import WEBHOOK_FAMILY
from turnlog.events.subjects import (
    ALERT_HISTORY,
    ALERTS_STREAM,
    ALL_BLOB_SUBJECTS,
    ALL_KEY_SUBJECTS,
    ALL_TOKEN_SUBJECTS,
    BLOBS_STREAM,
    KEYS_STREAM,
    LEASE_TENANT,
    LIBRARY_HISTORY,
    LIBRARY_STREAM,
    NOTES_TENANT,
    POSITIONS_SUBJECT,
    READ_HISTORY,
    READS_STREAM,
    RECORD_STREAMS,
    REPUBLISH_PREFIX,
    SEARCH_SUBJECT,
    SERVICE_INBOX,
    SESSION_HISTORY,
    SESSIONS_STREAM,
    SNAPSHOTS_STREAM,
    TOKENS_STREAM,
    WORKERS_CONSUMER,
)

NatsUser = Literal["gateway", "worker", "projector", "provision", "consumer"]
"""A login: of a role, of the job that makes the streams, or of programs that only read."""

NATS_USERS: Final[Sequence[NatsUser]] = get_args(NatsUser)

STREAM_SUBJECTS: Final = {
    SESSIONS_STREAM: SESSION_HISTORY.build_filter(),
    LIBRARY_STREAM: LIBRARY_HISTORY.build_filter(),
    ALERTS_STREAM: ALERT_HISTORY.build_filter(),
    READS_STREAM: READ_HISTORY.build_filter(),
    BLOBS_STREAM: ALL_BLOB_SUBJECTS,
    SNAPSHOTS_STREAM: "snapshot.>",
    KEYS_STREAM: ALL_KEY_SUBJECTS,
    TOKENS_STREAM: ALL_TOKEN_SUBJECTS,
}
"""Every stream, with the filter by which its readers read all of it."""

PUBLISHED_STREAMS: Final = (SESSIONS_STREAM, LIBRARY_STREAM, ALERTS_STREAM, TOKENS_STREAM)
"""The streams that consumers read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsGrant:
    """What some of the logins may do, and what for."""

    purpose: str
    users: tuple[NatsUser, ...]
    publish: Sequence[str] = ()
    subscribe: Sequence[str] = ()
    refused: Sequence[str] = ()
    """Subjects that these logins may not publish to, though `publish` has them."""


def _format(patterns: Sequence[str], *names: str) -> tuple[str, ...]:
    return tuple(pattern.format(name) for name in names for pattern in patterns)


_GET: Final = ("$JS.API.STREAM.MSG.GET.{}", "$JS.API.DIRECT.GET.{}")
"""Requests for single messages of a stream."""


def _build_scans(*streams: str) -> tuple[str, ...]:
    """Return what reading all of these streams publishes, with consumers that end by themselves."""
    creates = (f"$JS.API.CONSUMER.CREATE.{each}.*.{STREAM_SUBJECTS[each]}" for each in streams)
    return (*creates, *_format(("$JS.FC.{}.>",), *streams))


_WORKERS: Final = f"{SESSIONS_STREAM}.{WORKERS_CONSUMER}"

_WORKERS_TAKEN: Final = _format(
    (
        "$JS.API.CONSUMER.CREATE.{}",
        "$JS.API.CONSUMER.CREATE.{}.>",
        "$JS.API.CONSUMER.DURABLE.CREATE.{}",
        "$JS.API.CONSUMER.DELETE.{}",
        "$JS.API.CONSUMER.MSG.NEXT.{}",
        "$JS.ACK.{}.>",
        "$JS.FC.{}.>",
    ),
    _WORKERS,
)
"""What would change or empty the consumer that the workers share."""

_QUOTA_LEAVES: Final = ("reserved", "settled", "released", "counted")

_PLACE_LEAVES: Final = ("claimed", "advanced", "gave-up")

_EDITED_FAMILIES: Final = (
    *(SEGMENT_FAMILY, KNOWLEDGE_FAMILY, OVERRIDE_FAMILY),
    *(ALERT_RULES_FAMILY, WEBHOOK_FAMILY, QUOTA_LIMITS_FAMILY, RETENTION_FAMILY),
)
"""Histories of a tenant's library that people change, by the gateways."""

_EDITED: Final = (
    f"library.{INSTALLATION_TENANT}.>",
    *(LIBRARY_HISTORY.build_shared_filter(each) for each in _EDITED_FAMILIES),
)

ROLES: Final[tuple[NatsUser, ...]] = ("gateway", "worker", "projector")

GRANTS: Final[Sequence[NatsGrant]] = (
    NatsGrant(
        purpose="Append the events of sessions",
        users=("gateway", "worker"),
        publish=("session.*.*.>",),
    ),
    NatsGrant(
        purpose="Append what people change in a library: segments, knowledge, limits, keys, rules",
        users=("gateway",),
        publish=("library.*.*.>",),
    ),
    NatsGrant(
        purpose="Reserve and settle what turns and files use of a quota",
        users=("worker",),
        publish=tuple(f"library.*.*.{leaf}" for leaf in _QUOTA_LEAVES),
        refused=_EDITED,
    ),
    NatsGrant(
        purpose="Claim webhooks, and note how far their deliveries are",
        users=("projector",),
        publish=tuple(f"library.*.*.{leaf}" for leaf in _PLACE_LEAVES),
        refused=_EDITED,
    ),
    NatsGrant(
        purpose="Record what becomes of alerts",
        users=("projector",),
        publish=("alert.*.*.>",),
    ),
    NatsGrant(
        purpose="Record who looked at prompts, withheld texts and bundles",
        users=("gateway",),
        publish=("read.*.*.>",),
    ),
    NatsGrant(
        purpose="Store texts and files",
        users=("gateway", "worker"),
        publish=("blob.*.*",),
    ),
    NatsGrant(
        purpose="Store the keys of sealed sessions, wrapped",
        users=("gateway", "worker"),
        publish=("key.*.*",),
    ),
    NatsGrant(
        purpose="Keep snapshots of the states of sessions",
        users=("gateway", "worker"),
        publish=("snapshot.*.*", "snapshot.*.*.*"),
        refused=(f"snapshot.{NOTES_TENANT}.>",),
    ),
    NatsGrant(
        purpose="Note what reading the streams from end to end has found",
        users=("projector",),
        publish=(f"snapshot.{NOTES_TENANT}.*",),
    ),
    NatsGrant(
        purpose="Publish tokens, and signs of life of attempts",
        users=("worker",),
        publish=("tokens.*.*.*",),
        refused=(f"tokens.{LEASE_TENANT}.>",),
    ),
    NatsGrant(
        purpose="Give signs of life of who delivers a webhook",
        users=("projector",),
        publish=(f"tokens.{LEASE_TENANT}.*.*",),
    ),
    NatsGrant(
        purpose="Ask what the server and its streams hold",
        users=(*ROLES, "provision"),
        publish=("$JS.API.INFO", *_format(("$JS.API.STREAM.INFO.{}",), *STREAM_SUBJECTS)),
    ),
    NatsGrant(
        purpose="Read single messages",
        users=("gateway", "projector"),
        publish=_format(_GET, *STREAM_SUBJECTS),
    ),
    NatsGrant(
        purpose="Read single messages",
        users=("worker",),
        publish=_format(
            _GET,
            SESSIONS_STREAM,
            LIBRARY_STREAM,
            BLOBS_STREAM,
            SNAPSHOTS_STREAM,
            KEYS_STREAM,
            TOKENS_STREAM,
        ),
    ),
    NatsGrant(
        purpose="Read the keys of sealed sessions, which open with the keyring alone",
        users=("consumer",),
        publish=_format(_GET, KEYS_STREAM),
    ),
    NatsGrant(
        purpose="Read whole streams",
        users=("gateway", "projector"),
        publish=_build_scans(*RECORD_STREAMS),
        refused=_WORKERS_TAKEN,
    ),
    NatsGrant(
        purpose="Follow the tokens of all sessions",
        users=("gateway",),
        publish=_build_scans(TOKENS_STREAM),
    ),
    NatsGrant(
        purpose="Take turns from the queue, extend and settle them",
        users=("worker",),
        publish=_format(
            (
                "$JS.API.CONSUMER.INFO.{}",
                "$JS.API.CONSUMER.CREATE.{}",
                "$JS.API.CONSUMER.MSG.NEXT.{}",
                "$JS.ACK.{}.>",
            ),
            _WORKERS,
        ),
    ),
    NatsGrant(
        purpose="Ask how long the queue of turns is",
        users=("gateway", "projector", "provision"),
        publish=(f"$JS.API.CONSUMER.INFO.{_WORKERS}",),
    ),
    NatsGrant(
        purpose="Create again what a server forgets, and empty a damaged cache",
        users=(*ROLES, "provision"),
        publish=(
            *_format(("$JS.API.STREAM.CREATE.{}",), TOKENS_STREAM, SNAPSHOTS_STREAM),
            f"$JS.API.STREAM.PURGE.{SNAPSHOTS_STREAM}",
        ),
    ),
    NatsGrant(
        purpose="Create the streams of the record, and change those of an earlier release",
        users=("provision",),
        publish=(
            *_format(("$JS.API.STREAM.CREATE.{}",), *RECORD_STREAMS, KEYS_STREAM),
            *_format(("$JS.API.STREAM.UPDATE.{}",), *STREAM_SUBJECTS),
        ),
    ),
    NatsGrant(
        purpose="Overwrite the record of keys that an erasure has replaced",
        users=("gateway",),
        publish=(f"$JS.API.STREAM.MSG.DELETE.{KEYS_STREAM}",),
    ),
    NatsGrant(
        purpose="Hear which records of keys are replaced, so as to forget those in memory",
        users=(*ROLES, "consumer"),
        subscribe=(ALL_KEY_SUBJECTS,),
    ),
    NatsGrant(
        purpose="Ask how far the read models are",
        users=("worker",),
        publish=(POSITIONS_SUBJECT,),
    ),
    NatsGrant(
        purpose="Answer how far the read models are",
        users=("gateway", "projector"),
        subscribe=(POSITIONS_SUBJECT,),
        publish=(f"{SERVICE_INBOX}.worker.>",),
    ),
    NatsGrant(
        purpose="Search knowledge",
        users=("gateway", "worker"),
        publish=(SEARCH_SUBJECT,),
    ),
    NatsGrant(
        purpose="Answer searches of knowledge",
        users=("projector",),
        subscribe=(SEARCH_SUBJECT,),
        publish=(f"{SERVICE_INBOX}.gateway.>", f"{SERVICE_INBOX}.worker.>"),
    ),
    NatsGrant(
        purpose="Hear of events and tokens when they are stored",
        users=("gateway", "worker", "consumer"),
        subscribe=(f"{REPUBLISH_PREFIX}.>",),
    ),
    *(
        NatsGrant(
            purpose="Receive answers, and nobody else's",
            users=(user,),
            subscribe=(f"{SERVICE_INBOX}.{user}.>",),
        )
        for user in (*ROLES, "provision")
    ),
    NatsGrant(
        purpose="Read sessions, the library, alerts and tokens with any client of NATS",
        users=("consumer",),
        publish=(
            *("$JS.API.INFO", "$JS.API.STREAM.NAMES"),
            *_format(
                (
                    "$JS.API.STREAM.INFO.{}",
                    *_GET,
                    "$JS.API.DIRECT.GET.{}.>",
                    "$JS.API.CONSUMER.CREATE.{}",
                    "$JS.API.CONSUMER.CREATE.{}.>",
                    "$JS.API.CONSUMER.DURABLE.CREATE.{}.*",
                    "$JS.API.CONSUMER.INFO.{}.*",
                    "$JS.API.CONSUMER.DELETE.{}.*",
                    "$JS.API.CONSUMER.MSG.NEXT.{}.*",
                    "$JS.ACK.{}.>",
                    "$JS.FC.{}.>",
                ),
                *PUBLISHED_STREAMS,
            ),
        ),
        subscribe=("_INBOX.>",),
        refused=_WORKERS_TAKEN,
    ),
)
"""What each login may do. What no line has is refused."""


@dataclass(frozen=True, slots=True)
class NatsLists:
    """The permissions of one login, in the form of a server."""

    publish: Sequence[str]
    refused: Sequence[str]
    """What it may not publish to, though `publish` has it."""
    subscribe: Sequence[str]


def collect_lists(user: NatsUser) -> NatsLists:
    """Return the permissions of a login, each subject once, in the order of the table."""
    grants = [each for each in GRANTS if user in each.users]
    return NatsLists(
        _join(each.publish for each in grants),
        _join(each.refused for each in grants),
        _join(each.subscribe for each in grants),
    )


def _join(lists: Iterator[Sequence[str]] | Collection[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(lists)))
