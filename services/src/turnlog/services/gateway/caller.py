"""The identity of a request: its tenant, route and idempotency key.

An idempotency key identifies one request: its method, path and body in canonical JSON. The gateway
handles the same request with the same key once and repeats the answer. The session's record of keys
refuses a different request with the same key.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Header, Request
from pydantic import BaseModel

from turnlog.events import codec
from turnlog.events.content import digest_of
from turnlog.events.errors import Refused
from turnlog.services.gateway.desk import Tenant
from turnlog.services.runtime.sessions import By
from turnlog.services.runtime.telemetry import traceparent

HEADER: Final = "Idempotency-Key"
ACTOR: Final = "client"
_KEY: Final = re.compile(r"[!-~]([ -~]{0,198}[!-~])?")


@dataclass(frozen=True, slots=True)
class Caller:
    """The identity of a request as the event log records it."""

    tenant: str
    route: str
    """Method and path."""
    key: str | None

    @property
    def by(self) -> By:
        """The actor and trace context that are recorded with appended events."""
        return By(ACTOR, traceparent=traceparent())

    def command(self, payload: BaseModel | None = None) -> codec.Command | None:
        """Return the key with the digest of the request, or None without a key."""
        if self.key is None:
            return None
        body = payload.model_dump(mode="json") if payload else None
        request = {"route": self.route, "body": body}
        canonical = json.dumps(request, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return codec.Command(self.key, digest_of(canonical))

    def session_id(self) -> str | None:
        """Return the session id derived from the key, so that a retry finds the session; or None.
        """
        if self.key is None:
            return None
        return digest_of(f"{self.tenant}\n{self.key}").removeprefix("sha256:")[:32]


async def caller_of(
    request: Request,
    tenant: Tenant,
    keys: Annotated[
        list[str] | None,
        Header(
            alias=HEADER,
            description="1 to 200 printable characters that stand for this very request",
        ),
    ] = None,
) -> Caller:
    """Return the identity of a request; raises `Refused` `bad-key` for an invalid key."""
    return Caller(tenant, f"{request.method} {request.url.path}", _checked_key(keys or []))


AskedBy = Annotated[Caller, Depends(caller_of)]


def _checked_key(keys: list[str]) -> str | None:
    if len(keys) > 1:
        raise Refused("bad-key", f"{len(keys)} keys came", field=HEADER, fix="send one")
    if keys and _KEY.fullmatch(keys[0]) is None:
        fix = "send 1 to 200 printable ASCII characters"
        raise Refused("bad-key", "it is no key", field=HEADER, fix=fix)
    return keys[0] if keys else None
