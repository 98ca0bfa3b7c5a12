"""The event store on NATS JetStream, and the typed consumer for read-only clients.

A service opens everything at once with `open_client`; a consumer only needs `subscribe_events`.
"""

from __future__ import annotations

from turnlog.events.nats.connection import NatsConnection, open_connection
from turnlog.events.nats.consuming import EventSubscription, UndecodableItem, subscribe_events
from turnlog.events.nats.layout import StreamOptions
from turnlog.events.nats.opening import JetStreamClient, build_client, open_client
from turnlog.events.nats.provision import provision_streams, provision_token_stream
from turnlog.events.nats.speaking import TurnTokenEvent
from turnlog.events.nats.workers import WORKERS_CONSUMER, WorkQueueOptions, ensure_work_queue

__all__ = [
    "WORKERS_CONSUMER",
    "NatsConnection",
    "EventSubscription",
    "WorkQueueOptions",
    "JetStreamClient",
    "TurnTokenEvent",
    "StreamOptions",
    "UndecodableItem",
    "open_connection",
    "build_client",
    "open_client",
    "ensure_work_queue",
    "provision_streams",
    "provision_token_stream",
    "subscribe_events",
]
