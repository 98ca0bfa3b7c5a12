"""The event store on NATS JetStream, and the typed consumer for read-only clients.

A service opens everything at once with `open_client`; a consumer only needs `subscribe_events`.
"""

from __future__ import annotations

from turnlog.events.jetstream.event_consumer import (
    EventSubscription,
    UndecodableItem,
    subscribe_events,
)
from turnlog.events.jetstream.jetstream_client import JetStreamClient, build_client, open_client
from turnlog.events.jetstream.nats_connection import NatsConnection, open_connection
from turnlog.events.jetstream.stream_setup import (
    StreamOptions,
    provision_lost_streams,
    provision_streams,
)
from turnlog.events.jetstream.work_queue import WorkQueueOptions, ensure_work_queue
from turnlog.events.store.ports import TurnTokenEvent
from turnlog.events.subjects import WORKERS_CONSUMER

__all__ = [
    "WORKERS_CONSUMER",
    "EventSubscription",
    "JetStreamClient",
    "NatsConnection",
    "StreamOptions",
    "TurnTokenEvent",
    "UndecodableItem",
    "WorkQueueOptions",
    "build_client",
    "ensure_work_queue",
    "open_client",
    "open_connection",
    "provision_lost_streams",
    "provision_streams",
    "subscribe_events",
]
