"""What-if comparisons: fetch a report from a service, then print it or write it as HTML."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from pydantic import TypeAdapter

from turnlog.services.cli.reader.reader import PATIENCE, Reader
from turnlog.services.cli.reader.refusals import checked, reaching
from turnlog.services.gateway.payloads.what_if import Line, WhatIfForm

_LINE: Final[TypeAdapter[Line]] = TypeAdapter(Line)


async def supposed(reader: Reader, form: WhatIfForm) -> AsyncGenerator[Line]:
    """Stream the lines of a report; raises `Unavailable` if the service breaks off."""
    body = form.model_dump(mode="json", exclude_none=True)
    with reaching(str(reader.client.base_url)):
        async with reader.client.stream(
            "POST", "/v1/what-if", json=body, timeout=PATIENCE
        ) as answer:
            if not answer.is_success:
                await answer.aread()
            async for line in checked(answer).aiter_lines():
                yield _LINE.validate_json(line)
