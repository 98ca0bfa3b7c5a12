"""Server-sent events, taken apart: the frames of one connection, whatever they mean."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Frame:
    """One event as it was sent."""

    name: str
    data: str
    cursor: str
    """What to send back as `Last-Event-ID`."""


async def frames(lines: AsyncIterator[str]) -> AsyncGenerator[Frame]:
    """Give the events of a stream; signs of life are left out."""
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
