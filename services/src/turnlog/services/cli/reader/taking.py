"""Session exports: fetch them from a service and write them to files.

A bundle of several sessions is merged from one bundle each. Existing files are never overwritten,
and nothing is left behind on failure. Undecodable events and late redactions are exported as
stored, with a warning.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from turnlog.services.cli.reader.reader import ServiceReader
from turnlog.services.cli.reader.refusals import require_success, map_transport_errors


async def stream_export(reader: ServiceReader, session: str, form: str) -> AsyncGenerator[bytes]:
    """Stream a session in an export format; raises `Unavailable` if the service breaks off."""
    with map_transport_errors(str(reader.client.base_url)):
        path = f"/v1/sessions/{session}/export"
        async with reader.client.stream("GET", path, params={"format": form}) as answer:
            if not answer.is_success:
                await answer.aread()
            async for piece in require_success(answer).aiter_bytes():
                yield piece
