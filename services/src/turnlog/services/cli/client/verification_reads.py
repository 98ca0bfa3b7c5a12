"""What commands read of the verification of sessions and of the log, and checkpoints."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Final

from pydantic import Discriminator, TypeAdapter

from turnlog.client import ClientOperation
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.events.errors import Unavailable
from turnlog.projections.audit.verify.checkpoint_consistency import (
    MAX_CONTINUED_BYTES,
    ContinuedCheckpoint,
)
from turnlog.projections.audit.verify.signed_checkpoints import (
    MAX_CHECKPOINT_BYTES,
    AuditCheckpoint,
    CheckpointHead,
)
from turnlog.services.api.verify_payloads import (
    VerificationView,
    VerifyFindingLine,
    VerifyProgressLine,
    VerifySummaryLine,
)
from turnlog.services.cli.client.service_client import LONG_TIMEOUT_SECONDS, ServiceClient


async def verify_session(
    service: ServiceClient, session: str, noted: CheckpointHead | None = None
) -> VerificationView:
    """Verify a session, and a head of it that was noted earlier."""
    query = {"noted": str(noted.sequence), "head": noted.hash} if noted else {}
    path = format_path(api_paths.VERIFY_SESSION, session=session)
    return await service.send(
        ClientOperation("GET", path, VerificationView, query=query, timeout=LONG_TIMEOUT_SECONDS)
    )


VerificationLine = VerifyProgressLine | VerifyFindingLine | VerifySummaryLine

_VERIFICATION_LINE: Final[TypeAdapter[VerificationLine]] = TypeAdapter(
    Annotated[VerificationLine, Discriminator("kind")]
)


async def stream_verification(
    service: ServiceClient, witness: AuditCheckpoint | None
) -> AsyncGenerator[VerificationLine]:
    """Stream the result of verifying everything, against a checkpoint if one is given.

    Raises `Unavailable` if the summary line is missing.
    """
    method, body = ("POST", witness.model_dump(mode="json")) if witness else ("GET", None)
    operation = ClientOperation(
        method, api_paths.VERIFY_LOG, object, body=body, timeout=LONG_TIMEOUT_SECONDS
    )
    line: VerificationLine | None = None
    async with aclosing(service.stream_lines(operation)) as lines:
        async for text in lines:
            line = _VERIFICATION_LINE.validate_json(text)
            yield line
    if not isinstance(line, VerifySummaryLine):
        raise Unavailable("the service", "the response ended before the log was read to its end")


async def fetch_checkpoint(service: ServiceClient) -> AuditCheckpoint:
    """Return the last sequence and hash of every session; raises `Corrupt` if a chain is broken."""
    return await service.send(
        ClientOperation(
            *("GET", api_paths.CHECKPOINT, AuditCheckpoint),
            timeout=LONG_TIMEOUT_SECONDS,
            most_bytes=MAX_CHECKPOINT_BYTES,
        )
    )


async def continue_checkpoint(
    service: ServiceClient, older: AuditCheckpoint
) -> ContinuedCheckpoint:
    """Return a checkpoint with its consistency to an older one.

    Raises `Corrupt` if the log does not continue the older one, or a chain is broken.
    """
    return await service.send(
        ClientOperation(
            *("POST", api_paths.CHECKPOINT, ContinuedCheckpoint),
            body=older.model_dump(mode="json"),
            timeout=LONG_TIMEOUT_SECONDS,
            most_bytes=MAX_CONTINUED_BYTES,
        )
    )
