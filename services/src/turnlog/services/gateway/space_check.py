"""Whether the log still takes writes, or refuses every one for want of space.

The limits of the streams are compared with what they hold. The server's own limit is known to the
server alone, so a few bytes are written to the snapshot of a session that is never opened; they
replace those of the last check. A stream that could not write to its disk answers nobody until the
server is restarted; only the monitoring address tells of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from pydantic import BaseModel

from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.batch_append import NO_SPACE_CODES
from turnlog.events.jetstream.jetstream_client import JetStreamSnapshotStore
from turnlog.events.jetstream.js_api import JsApiError, request_json
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.subjects import BLOBS_STREAM, LIBRARY_STREAM, SESSIONS_STREAM
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.platform.durability import check_store_writable
from turnlog.services.platform.process_health import PROBE_SESSION

SMALL_EVENT_BYTES: Final = 1024
"""A stream with less room than this takes no event."""


class _StreamLimits(BaseModel):
    max_bytes: int = -1


class _StreamUsage(BaseModel):
    bytes: int


class _StreamSpaceReply(BaseModel):
    config: _StreamLimits
    state: _StreamUsage


@dataclass(frozen=True, slots=True)
class SpaceCheck:
    """Checks that the log has space."""

    connection: NatsConnection
    tenant: str
    monitor: str | None
    """The server's monitoring address."""

    async def check_space(self) -> None:
        """Raise `Unavailable` if every write is refused."""
        if self.monitor is not None:
            await run_in_thread(partial(check_store_writable, self.monitor))
        for stream in (SESSIONS_STREAM, LIBRARY_STREAM, BLOBS_STREAM):
            await self._check_stream_limit(stream)
        try:
            await JetStreamSnapshotStore(self.connection).put_snapshot(
                self.tenant, PROBE_SESSION, b""
            )
        except JsApiError as denied:
            if denied.code not in NO_SPACE_CODES:
                raise
            detail = f"its server has no space for any write ({denied.detail})"
            raise Unavailable("log", detail) from denied

    async def _check_stream_limit(self, stream: str) -> None:
        subject = f"$JS.API.STREAM.INFO.{stream}"
        info = await request_json(self.connection, subject, _StreamSpaceReply)
        limit = info.config.max_bytes
        if 0 <= limit < info.state.bytes + SMALL_EVENT_BYTES:
            used = f"its stream {stream} has {info.state.bytes} bytes of at most {limit}"
            raise Unavailable("log", f"{used}: raise max_bytes with the `nats` tool")
