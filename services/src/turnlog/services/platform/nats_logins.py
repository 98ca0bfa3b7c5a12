"""The two logins of a nats-server: the services' own, and that of consumers, which only reads.

Whoever can publish under a session's subjects can put a message into its record. So consumers get a
login that may publish what reading takes and nothing else. It reads every tenant, creates consumers
of its own, and must not touch the one that the workers share: who acknowledges there takes turns
away from them. What it receives comes to inboxes under `_INBOX`; those of the services have another
prefix, so that a consumer sees no answer that is not its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from turnlog.events.subjects import (
    ALERTS_STREAM,
    LIBRARY_STREAM,
    REPUBLISH_PREFIX,
    SESSIONS_STREAM,
    TOKENS_STREAM,
    WORKERS_CONSUMER,
)

SERVICE_USER: Final = "turnlog"

CONSUMER_USER: Final = "consumer"

PUBLISHED_STREAMS: Final = (SESSIONS_STREAM, LIBRARY_STREAM, ALERTS_STREAM, TOKENS_STREAM)
"""The streams that consumers read."""

READING_SUBJECTS: Final = (
    "$JS.API.STREAM.INFO.{}",
    "$JS.API.STREAM.MSG.GET.{}",
    "$JS.API.DIRECT.GET.{}",
    "$JS.API.DIRECT.GET.{}.>",
    "$JS.API.CONSUMER.CREATE.{}",
    "$JS.API.CONSUMER.CREATE.{}.>",
    "$JS.API.CONSUMER.DURABLE.CREATE.{}.*",
    "$JS.API.CONSUMER.INFO.{}.*",
    "$JS.API.CONSUMER.DELETE.{}.*",
    "$JS.API.CONSUMER.MSG.NEXT.{}.*",
    "$JS.ACK.{}.>",
    "$JS.FC.{}.>",
)
"""What reading a stream publishes: requests, acknowledgements and answers of flow control."""

CONSUMER_PUBLISHES: Final = (
    "$JS.API.INFO",
    "$JS.API.STREAM.NAMES",
    *(subject.format(stream) for stream in PUBLISHED_STREAMS for subject in READING_SUBJECTS),
)

CONSUMER_MUST_NOT_PUBLISH: Final = tuple(
    subject.format(f"{SESSIONS_STREAM}.{WORKERS_CONSUMER}")
    for subject in (
        "$JS.API.CONSUMER.CREATE.{}",
        "$JS.API.CONSUMER.CREATE.{}.>",
        "$JS.API.CONSUMER.DURABLE.CREATE.{}",
        "$JS.API.CONSUMER.DELETE.{}",
        "$JS.API.CONSUMER.MSG.NEXT.{}",
        "$JS.ACK.{}.>",
        "$JS.FC.{}.>",
    )
)
"""What would change or empty the consumer that the workers share."""

CONSUMER_SUBSCRIBES: Final = ("_INBOX.>", f"{REPUBLISH_PREFIX}.>")


def render_consumer_permissions() -> str:
    """Return the permissions of consumers in the form of a configuration of nats-server."""
    lines = [
        "publish {",
        *_render_list("allow", CONSUMER_PUBLISHES),
        *_render_list("deny", CONSUMER_MUST_NOT_PUBLISH),
        "}",
        "subscribe {",
        *_render_list("allow", CONSUMER_SUBSCRIBES),
        "}",
    ]
    return "\n".join([*lines, ""])


def _render_list(name: str, subjects: Sequence[str]) -> Iterator[str]:
    yield f"  {name}: ["
    yield from (f"    {json.dumps(subject)}" for subject in subjects)
    yield "  ]"
