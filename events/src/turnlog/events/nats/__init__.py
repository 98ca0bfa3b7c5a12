"""The event store on NATS JetStream, and the typed consumer for read-only clients.

A service opens everything at once with `open_client`; a consumer only needs `subscribe_events`.
"""

from __future__ import annotations

from turnlog.events.nats.connection import Connection, connected
from turnlog.events.nats.consuming import EventStream, Unreadable, subscribe
from turnlog.events.nats.layout import Terms
from turnlog.events.nats.opening import JetStream, jetstream_on, opened
from turnlog.events.nats.provision import provision, provision_tokens
from turnlog.events.nats.speaking import Spoken
from turnlog.events.nats.workers import WORKERS, Handout, provide_workers

__all__ = [
    "WORKERS",
    "Connection",
    "EventStream",
    "Handout",
    "JetStream",
    "Spoken",
    "Terms",
    "Unreadable",
    "connected",
    "jetstream_on",
    "opened",
    "provide_workers",
    "provision",
    "provision_tokens",
    "subscribe",
]
