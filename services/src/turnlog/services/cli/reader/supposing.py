"""What-if comparisons: fetch a report from a service, then print it or write it as HTML."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from pydantic import TypeAdapter

from turnlog.services.cli.reader.reader import LONG_TIMEOUT, ServiceReader
from turnlog.services.cli.reader.refusals import require_success, map_transport_errors
from turnlog.services.gateway.payloads.what_if import WhatIfLine, WhatIfRequest

_WHAT_IF_LINE: Final[TypeAdapter[WhatIfLine]] = TypeAdapter(WhatIfLine)


async def stream_what_if(reader: ServiceReader, form: WhatIfRequest) -> AsyncGenerator[WhatIfLine]:
    """Stream the lines of a report; raises `Unavailable` if the service breaks off."""
    body = form.model_dump(mode="json", exclude_none=True)
    with map_transport_errors(str(reader.client.base_url)):
        async with reader.client.stream(
            "POST", "/v1/what-if", json=body, timeout=LONG_TIMEOUT
        ) as answer:
            if not answer.is_success:
                await answer.aread()
            async for line in require_success(answer).aiter_lines():
                yield _WHAT_IF_LINE.validate_json(line)
