from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

from turnlog.events.ids import SESSIONS, TURNS_TO_TAKE
from turnlog.events.nats.answers import Denied, ask
from turnlog.events.nats.connection import Connection
from turnlog.events.nats.layout import SECOND, Settings
from turnlog.events.nats.provision import check

WORKERS: Final = "workers"
NO_CONSUMER: Final = 10014


@dataclass(frozen=True, slots=True)
class Handout:
    """How turns are handed out to workers."""

    ack_wait: float
    """Seconds without an acknowledgement after which a turn is delivered to another worker."""
    max_ack_pending: int
    """Maximum turns that are delivered and not yet settled, over all workers."""


class _Consumer(BaseModel):
    config: Settings


async def provide_workers(connection: Connection, handout: Handout, *, start: int = 1) -> bool:
    """Ensure that the durable consumer exists; return whether it was created, from `start` on.

    A settled turn that is delivered again is recognised by its session. Raises `Corrupt` for a
    consumer that would lose turns; adjustable options are updated.
    """
    try:
        found = await ask(connection, f"$JS.API.CONSUMER.INFO.{SESSIONS}.{WORKERS}", _Consumer)
    except Denied as denied:
        if denied.code != NO_CONSUMER:
            raise
        begin: Settings = {"deliver_policy": "by_start_sequence", "opt_start_seq": start}
        await _put(connection, "create", _fixed() | _free(handout) | begin)
        return True
    check(f"consumer {WORKERS}", _fixed(), found.config)
    if not _free(handout).items() <= found.config.items():
        await _put(connection, "update", found.config | _free(handout))
    return False


def _fixed() -> Settings:
    return {
        "durable_name": WORKERS,
        "filter_subjects": list(TURNS_TO_TAKE),
        "ack_policy": "explicit",
        "max_deliver": -1,
    }


def _free(handout: Handout) -> Settings:
    return {
        "ack_wait": int(handout.ack_wait * SECOND),
        "max_ack_pending": handout.max_ack_pending,
    }


async def _put(connection: Connection, action: str, config: Settings) -> None:
    wanted = {"stream_name": SESSIONS, "action": action, "config": config}
    subject = f"$JS.API.CONSUMER.CREATE.{SESSIONS}.{WORKERS}"
    await ask(connection, subject, _Consumer, json.dumps(wanted).encode())
