"""What a service sends of a session to take away, piece by piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.reader.refusals import checked, reaching


async def exported(reader: Reader, session: str, form: str) -> AsyncGenerator[bytes]:
    """Give a session in a form; raises `Unavailable` where the service breaks off."""
    with reaching(str(reader.client.base_url)):
        path = f"/v1/sessions/{session}/export"
        async with reader.client.stream("GET", path, params={"format": form}) as answer:
            if not answer.is_success:
                await answer.aread()
            async for piece in checked(answer).aiter_bytes():
                yield piece
