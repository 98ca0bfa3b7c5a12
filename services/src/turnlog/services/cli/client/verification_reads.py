"""What commands read of the verification of sessions and of the log, and checkpoints."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Final

from pydantic import Discriminator, TypeAdapter

from turnlog.events.errors import Unavailable
from turnlog.projections.audit.verify.signed_checkpoints import AuditCheckpoint, CheckpointHead
from turnlog.services.api.verify_payloads import (
    VerificationView,
    VerifyFindingLine,
    VerifyProgressLine,
    VerifySummaryLine,
)
from turnlog.services.cli.client.http_responses import send_request, stream_lines
from turnlog.services.cli.client.service_reader import (
    LONG_TIMEOUT,
    QueryParameters,
    ServiceReader,
)


async def verify_session(
    reader: ServiceReader, session: str, noted: CheckpointHead | None = None
) -> VerificationView:
    """Verify a session, and a head of it that was noted earlier."""
    query: QueryParameters = {"noted": noted.sequence, "head": noted.hash} if noted else {}
    return await reader.get_view(
        VerificationView, f"/v1/sessions/{session}/verify", query, LONG_TIMEOUT
    )


VerificationLine = VerifyProgressLine | VerifyFindingLine | VerifySummaryLine

_VERIFICATION_LINE: Final[TypeAdapter[VerificationLine]] = TypeAdapter(
    Annotated[VerificationLine, Discriminator("kind")]
)


async def stream_verification(
    reader: ServiceReader, witness: AuditCheckpoint | None
) -> AsyncGenerator[VerificationLine]:
    """Stream the result of verifying everything, against a checkpoint if one is given.

    Raises `Unavailable` if the summary line is missing.
    """
    method, body = ("POST", witness.model_dump_json()) if witness else ("GET", None)
    headers = {"Content-Type": "application/json"} if witness else None
    request = reader.client.build_request(
        method, "/v1/verify", content=body, headers=headers, timeout=LONG_TIMEOUT
    )
    line: VerificationLine | None = None
    async with aclosing(stream_lines(reader.client, request)) as lines:
        async for text in lines:
            line = _VERIFICATION_LINE.validate_json(text)
            yield line
    if not isinstance(line, VerifySummaryLine):
        raise Unavailable("the service", "the response ended before the log was read to its end")


async def fetch_checkpoint(reader: ServiceReader) -> AuditCheckpoint:
    """Return the last sequence and hash of every session; raises `Corrupt` if a chain is broken."""
    request = reader.client.build_request("GET", "/v1/checkpoint", timeout=LONG_TIMEOUT)
    response = await send_request(reader.client, request)
    return AuditCheckpoint.model_validate_json(response.content)
