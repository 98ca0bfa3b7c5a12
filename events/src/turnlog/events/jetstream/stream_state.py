"""Where a stream is stored and how: its replicas, their leader, and whether it is compressed.

Nothing here decides anything while a service runs; it is what an operator looks at.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel

from turnlog.events.jetstream.js_api import JsApiError, request_json
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.jetstream.stream_setup import STREAM_NOT_FOUND, UNCOMPRESSED, UNCOMPRESSED_SINCE


@dataclass(frozen=True, slots=True)
class FollowerState:
    """A replica beside the leader."""

    server: str
    is_current: bool
    """Whether it has everything that the leader has."""
    lag: int
    """How many operations it is behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLayout:
    """How a stream is stored."""

    replicas: int
    compression: str
    leader: str
    """Name of the server that leads it; empty without a leader, and on a single server."""
    followers: tuple[FollowerState, ...]
    uncompressed_since: datetime | None
    """When its compression was turned off; None if it never was on."""


class _LayoutConfig(BaseModel):
    num_replicas: int = 1
    compression: str = UNCOMPRESSED
    metadata: dict[str, str] = {}


class _FollowerReply(BaseModel):
    name: str
    current: bool = False
    offline: bool = False
    lag: int = 0


class _LayoutCluster(BaseModel):
    leader: str = ""
    replicas: tuple[_FollowerReply, ...] = ()


class _LayoutReply(BaseModel):
    config: _LayoutConfig
    cluster: _LayoutCluster = _LayoutCluster()


async def fetch_stream_layout(connection: NatsConnection, stream: str) -> StreamLayout | None:
    """Return how a stream is stored, or None if it does not exist; raises `Unavailable`."""
    try:
        info = await request_json(connection, f"$JS.API.STREAM.INFO.{stream}", _LayoutReply)
    except JsApiError as denied:
        if denied.code == STREAM_NOT_FOUND:
            return None
        raise
    since = info.config.metadata.get(UNCOMPRESSED_SINCE)
    followers = (
        FollowerState(each.name, each.current and not each.offline, each.lag)
        for each in info.cluster.replicas
    )
    return StreamLayout(
        replicas=info.config.num_replicas,
        compression=info.config.compression,
        leader=info.cluster.leader,
        followers=tuple(followers),
        uncompressed_since=datetime.fromisoformat(since) if since else None,
    )
