"""The durable consumer that all workers share: the log as a queue of turns.

It waits for the two events that tell of work, and never drops one by itself: how often a turn is
tried is decided by its session, not by the server. A durable that has gone is made again from
where the caller says, since a settled turn that comes again is settled by a look.
"""

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
    """How turns are handed out."""

    ack_wait: float
    """Seconds of silence after which a turn is handed to somebody else."""
    max_ack_pending: int
    """Turns handed out and not settled, over all workers."""


class _Consumer(BaseModel):
    config: Settings


async def provide_workers(connection: Connection, handout: Handout, *, start: int = 1) -> bool:
    """See that the durable is there; says whether it had to be made, from `start` on.

    Raises `Corrupt` for one that would lose turns; how it hands out is brought up to date.
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
