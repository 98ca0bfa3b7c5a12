from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Final

from pydantic import Discriminator, TypeAdapter

from turnlog.events.errors import Unavailable
from turnlog.projections.audit.checkpoint import Checkpoint
from turnlog.services.cli.reader.reader import PATIENCE, Reader
from turnlog.services.cli.reader.refusals import checked, reaching
from turnlog.services.gateway.payloads.verify import FindingLine, ProgressLine, SummaryLine

Line = ProgressLine | FindingLine | SummaryLine
_LINE: Final[TypeAdapter[Line]] = TypeAdapter(Annotated[Line, Discriminator("kind")])


async def verified(reader: Reader, witness: Checkpoint | None) -> AsyncGenerator[Line]:
    """Stream the result of verifying everything, against a checkpoint if one is given.

    Raises `Unavailable` if the summary line is missing.
    """
    method, body = ("POST", witness.model_dump_json()) if witness else ("GET", None)
    headers = {"Content-Type": "application/json"} if witness else None
    line: Line | None = None
    with reaching(str(reader.client.base_url)):
        async with reader.client.stream(
            method, "/v1/verify", content=body, headers=headers, timeout=PATIENCE
        ) as answer:
            if not answer.is_success:
                await answer.aread()
            async for said in checked(answer).aiter_lines():
                line = _LINE.validate_json(said)
                yield line
    if not isinstance(line, SummaryLine):
        raise Unavailable("the service", "it broke off while it went through the log")


async def checkpoint(reader: Reader) -> Checkpoint:
    """Return the last sequence and hash of every session; raises `Corrupt` if a chain is broken."""
    with reaching(str(reader.client.base_url)):
        answer = checked(await reader.client.get("/v1/checkpoint", timeout=PATIENCE))
    return Checkpoint.model_validate_json(answer.content)
