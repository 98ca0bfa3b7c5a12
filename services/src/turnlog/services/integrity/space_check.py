"""Whether the log still takes writes, or refuses every one for want of space.

The limits of the streams are compared with what they hold. The server's own limit is known to the
server alone, so a few bytes are written to the snapshot of a session that is never opened; they
replace those of the last check. A stream that could not write to its disk answers no request until
the server is restarted; only the monitoring page reports it. The log has space as long as one of
its servers is well, since a cluster goes on without the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.batch_append import NO_SPACE_CODES
from turnlog.events.jetstream.jetstream_client import JetStreamSnapshotStore
from turnlog.events.jetstream.js_api import JsApiError, StreamInfo, fetch_stream_info
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.subjects import RECORD_STREAMS
from turnlog.services.platform.nats_monitor import fetch_store_faults
from turnlog.services.platform.process_health import PROBE_SESSION, RecentCheck

SMALL_EVENT_BYTES: Final = 1024
"""A stream with less room than this takes no event."""


@dataclass(frozen=True, slots=True)
class SpaceCheck:
    """Checks that the log has space; each check writes a few bytes."""

    connection: NatsConnection
    tenant: str
    monitors: Sequence[str]
    """The monitoring addresses of all servers."""

    async def check_space(self) -> None:
        """Raise `Unavailable` if every write is refused."""
        await self._require_writable_server()
        for stream in RECORD_STREAMS:
            _check_stream_limit(stream, await fetch_stream_info(self.connection, stream))
        try:
            await JetStreamSnapshotStore(self.connection).put_snapshot(
                self.tenant, PROBE_SESSION, b""
            )
        except JsApiError as denied:
            if denied.code not in NO_SPACE_CODES:
                raise
            detail = f"its server has no space for any write ({denied.detail})"
            raise Unavailable("log", detail) from denied

    async def _require_writable_server(self) -> None:
        """Raise `Unavailable` if all servers that answer are unable to write."""
        found = (await fetch_store_faults(self.monitors)).values()
        faults = [each for each in found if not isinstance(each, Unavailable)]
        if faults and None not in faults:
            raise Unavailable("log", f"its server is unwell: {faults[0]}")


def create_space_check(
    connection: NatsConnection, tenant: str, monitors: Sequence[str]
) -> RecentCheck:
    """Return the check for readiness, which may run often."""
    return RecentCheck(component="log", check=SpaceCheck(connection, tenant, monitors).check_space)


def _check_stream_limit(stream: str, info: StreamInfo) -> None:
    if 0 <= info.max_bytes < info.byte_count + SMALL_EVENT_BYTES:
        used = f"its stream {stream} has {info.byte_count} bytes of at most {info.max_bytes}"
        raise Unavailable("log", f"{used}: raise max_bytes with the `nats` tool")
