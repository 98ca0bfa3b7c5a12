"""JSON sent by POST to an address that a blueprint's author wrote, and a bounded response.

Redirects are not followed and proxies from the environment are not used, so that the request goes
to that address. The caller sets the timeout.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import httpcore
import httpx
from pydantic import JsonValue

_UNCOMPRESSED: Final = {"Accept-Encoding": "identity"}
"""Compressed responses are not accepted, because they could expand without limit."""


httpcore.AsyncHTTP11Connection.READ_NUM_BYTES = 16_384  # pyright: ignore[reportAttributeAccessIssue]
"""Bytes that an HTTP client of this process takes before other tasks run.

A server may put 2,600 informational answers into the 64 kB that the library takes, and reading
them held the event loop for 0.28 s of processor time.
"""

MAX_PIECES: Final = 100_000
"""Maximum number of pieces of a response: each costs as much as a kilobyte, however short."""

_PIECES_IN_A_ROW: Final = 64
"""Pieces that are taken before other tasks run; those that are there already suspend nothing."""


@dataclass(frozen=True, slots=True)
class EndpointResponse:
    """What an address answered."""

    status: int
    body: bytes
    is_whole: bool
    """Whether the body is not longer than the limit; of a longer one this is the beginning."""
    is_encoded: bool
    """Whether the body is compressed although that was not accepted."""


async def post_json(
    url: str,
    value: JsonValue,
    max_bytes: int,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> EndpointResponse:
    """Send a value and return the response; raises `httpx.HTTPError`.

    Whoever sends many gives a context for TLS, since making one takes milliseconds.
    """
    sent = {**(headers or {}), **_UNCOMPRESSED}
    async with (
        httpx.AsyncClient(timeout=None, trust_env=False, verify=tls or True) as client,  # noqa: S113 - the caller ends it
        client.stream("POST", url, json=value, headers=sent) as answer,
    ):
        body, pieces = bytearray(), 0
        async for piece in answer.aiter_raw():
            body += piece
            pieces += 1
            if len(body) > max_bytes:
                break
            if pieces > MAX_PIECES:
                raise httpx.RemoteProtocolError("the response has too many pieces")
            if pieces % _PIECES_IN_A_ROW == 0:
                await asyncio.sleep(0)
        encoding = answer.headers.get("content-encoding", "identity")
        return EndpointResponse(
            answer.status_code,
            bytes(body[:max_bytes]),
            is_whole=len(body) <= max_bytes,
            is_encoded=encoding != "identity",
        )
