from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated, Final

from pydantic import Discriminator, TypeAdapter

from turnlog.events.errors import Unavailable
from turnlog.projections.audit.checkpoint import AuditCheckpoint
from turnlog.services.cli.reader.reader import LONG_TIMEOUT, ServiceReader
from turnlog.services.cli.reader.refusals import require_success, map_transport_errors
from turnlog.services.gateway.payloads.verify import VerifyFindingLine, VerifyProgressLine, VerifySummaryLine

VerificationLine = VerifyProgressLine | VerifyFindingLine | VerifySummaryLine
_VERIFICATION_LINE: Final[TypeAdapter[VerificationLine]] = TypeAdapter(Annotated[VerificationLine, Discriminator("kind")])


async def stream_verification(reader: ServiceReader, witness: AuditCheckpoint | None) -> AsyncGenerator[VerificationLine]:
    """Stream the result of verifying everything, against a checkpoint if one is given.

    Raises `Unavailable` if the summary line is missing.
    """
    method, body = ("POST", witness.model_dump_json()) if witness else ("GET", None)
    headers = {"Content-Type": "application/json"} if witness else None
    line: VerificationLine | None = None
    with map_transport_errors(str(reader.client.base_url)):
        async with reader.client.stream(
            method, "/v1/verify", content=body, headers=headers, timeout=LONG_TIMEOUT
        ) as answer:
            if not answer.is_success:
                await answer.aread()
            async for said in require_success(answer).aiter_lines():
                line = _VERIFICATION_LINE.validate_json(said)
                yield line
    if not isinstance(line, VerifySummaryLine):
        raise Unavailable("the service", "it broke off while it went through the log")


async def fetch_checkpoint(reader: ServiceReader) -> AuditCheckpoint:
    """Return the last sequence and hash of every session; raises `Corrupt` if a chain is broken."""
    with map_transport_errors(str(reader.client.base_url)):
        answer = require_success(await reader.client.get("/v1/checkpoint", timeout=LONG_TIMEOUT))
    return AuditCheckpoint.model_validate_json(answer.content)
