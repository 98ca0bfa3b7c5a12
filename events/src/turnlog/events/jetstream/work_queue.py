"""The work queue of turns: the durable consumer that all workers share, its settings and its state.

It never drops a turn: the session decides how often a turn is tried, not the server.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

from turnlog.events.jetstream.js_api import JsApiError, request_json
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.jetstream.stream_setup import (
    NANOSECONDS_PER_SECOND,
    STREAM_NOT_FOUND,
    JetStreamConfig,
    check_config,
)
from turnlog.events.subjects import CLAIMABLE_TURN_SUBJECTS, SESSIONS_STREAM, WORKERS_CONSUMER

CONSUMER_NOT_FOUND: Final = 10014


@dataclass(frozen=True, slots=True)
class WorkQueueOptions:
    """How turns are handed out to workers."""

    ack_wait: float
    """Seconds without an acknowledgement after which a turn is delivered to another worker."""
    max_ack_pending: int
    """Maximum turns that are delivered and not yet settled, over all workers."""


class _ConsumerConfigReply(BaseModel):
    config: JetStreamConfig


async def ensure_work_queue(
    connection: NatsConnection, options: WorkQueueOptions, *, start: int = 1
) -> bool:
    """Ensure that the durable consumer exists; return whether it was created, from `start` on.

    A settled turn that is delivered again is recognised by its session. Raises `Corrupt` for a
    consumer that would lose turns; adjustable options are updated.
    """
    try:
        found = await request_json(
            connection,
            f"$JS.API.CONSUMER.INFO.{SESSIONS_STREAM}.{WORKERS_CONSUMER}",
            _ConsumerConfigReply,
        )
    except JsApiError as denied:
        if denied.code != CONSUMER_NOT_FOUND:
            raise
        begin: JetStreamConfig = {"deliver_policy": "by_start_sequence", "opt_start_seq": start}
        await _send_consumer_config(
            connection, "create", _build_fixed_config() | _build_adjustable_config(options) | begin
        )
        return True
    check_config(f"consumer {WORKERS_CONSUMER}", _build_fixed_config(), found.config)
    if not _build_adjustable_config(options).items() <= found.config.items():
        await _send_consumer_config(
            connection, "update", found.config | _build_adjustable_config(options)
        )
    return False


def _build_fixed_config() -> JetStreamConfig:
    return {
        "durable_name": WORKERS_CONSUMER,
        "filter_subjects": list(CLAIMABLE_TURN_SUBJECTS),
        "ack_policy": "explicit",
        "max_deliver": -1,
    }


def _build_adjustable_config(options: WorkQueueOptions) -> JetStreamConfig:
    return {
        "ack_wait": int(options.ack_wait * NANOSECONDS_PER_SECOND),
        "max_ack_pending": options.max_ack_pending,
    }


async def _send_consumer_config(
    connection: NatsConnection, action: str, config: JetStreamConfig
) -> None:
    request = {"stream_name": SESSIONS_STREAM, "action": action, "config": config}
    subject = f"$JS.API.CONSUMER.CREATE.{SESSIONS_STREAM}.{WORKERS_CONSUMER}"
    await request_json(connection, subject, _ConsumerConfigReply, json.dumps(request).encode())


@dataclass(frozen=True, slots=True)
class WorkQueueState:
    """The turns that are being answered, and the workers that wait for one."""

    waiting_slots: int
    """Slots of workers that wait for a turn."""
    open_turns: int
    """Turns that a worker has, or that wait for an approval."""
    undelivered: int
    """Turns that no worker has taken yet."""


class _WorkQueueReply(BaseModel):
    num_waiting: int = 0
    num_ack_pending: int = 0
    num_pending: int = 0


async def fetch_work_queue_state(connection: NatsConnection) -> WorkQueueState | None:
    """Return the state of the queue of turns, or None if it does not exist."""
    subject = f"$JS.API.CONSUMER.INFO.{SESSIONS_STREAM}.{WORKERS_CONSUMER}"
    try:
        found = await request_json(connection, subject, _WorkQueueReply)
    except JsApiError as denied:
        if denied.code in {CONSUMER_NOT_FOUND, STREAM_NOT_FOUND}:
            return None
        raise
    return WorkQueueState(found.num_waiting, found.num_ack_pending, found.num_pending)
