from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SseFrame:
    """One server-sent event."""

    name: str
    data: str
    cursor: str
    """The value to send back as `Last-Event-ID`."""


async def parse_sse_frames(lines: AsyncIterator[str]) -> AsyncGenerator[SseFrame]:
    """Parse the events of an SSE stream; comments (keep-alives) are skipped."""
    name, cursor, data = "message", "", list[str]()
    async for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                name = value
            case "id":
                cursor = value
            case "data":
                data.append(value)
            case "" if not line:
                if data:
                    yield SseFrame(name, "\n".join(data), cursor)
                name, data = "message", []
            case _:
                pass
