from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """One server-sent event."""

    name: str
    data: str
    cursor: str
    """The value to send back as `Last-Event-ID`."""


async def frames(lines: AsyncIterator[str]) -> AsyncGenerator[Frame]:
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
                    yield Frame(name, "\n".join(data), cursor)
                name, data = "message", []
            case _:
                pass
