"""The identity of a request: its principal, route and idempotency key.

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
from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.http.request_tenant import RequestPrincipal, RequestSettings
from turnlog.services.identity.permissions import reaches_own_sessions_only
from turnlog.services.identity.principals import Principal
from turnlog.services.platform.telemetry.traces import get_traceparent

IDEMPOTENCY_HEADER: Final = "Idempotency-Key"

_KEY_PATTERN: Final = re.compile(r"[!-~]([ -~]{0,198}[!-~])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestIdentity:
    """The identity of a request, from which the caller of a use case follows."""

    principal: Principal
    route: str
    """Method and path."""
    idempotency_key: str | None
    believes_field: bool = True
    """Whether a field of the request may name the user where the principal is none."""

    @property
    def tenant(self) -> str:
        """The tenant of the principal."""
        return self.principal.tenant

    def create_caller(self, payload: BaseModel | None = None) -> Caller:
        """Return the caller of a use case; `payload` is the body of the request."""
        return Caller(
            tenant=self.principal.tenant,
            metadata=CommandMetadata(self.principal.actor, traceparent=get_traceparent()),
            command=self.create_command_key(payload),
            user=self.principal.user,
            may_name_user=self.principal.user is None and self.believes_field,
            reaches_all_sessions=not reaches_own_sessions_only(self.principal),
        )

    def create_command_key(self, payload: BaseModel | None = None) -> codec.CommandRef | None:
        """Return the key with the digest of the request, or None without a key."""
        if self.idempotency_key is None:
            return None
        body = payload.model_dump(mode="json") if payload else None
        request = {"route": self.route, "body": body}
        canonical = json.dumps(request, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return codec.CommandRef(self.idempotency_key, compute_digest(canonical))


async def get_request_identity(
    request: Request,
    principal: RequestPrincipal,
    settings: RequestSettings,
    key: Annotated[
        str | None,
        Header(
            alias=IDEMPOTENCY_HEADER,
            description="1 to 200 printable characters that identify this request",
        ),
    ] = None,
) -> RequestIdentity:
    """Return the identity of a request; raises `Refused` `bad-key` for an invalid key."""
    route = f"{request.method} {request.url.path}"
    return RequestIdentity(
        principal=principal,
        route=route,
        idempotency_key=_check_key(request, key),
        # Where a proxy names users, those of other requests have no users unless they signed in.
        believes_field=principal.sign_in != "none" or not settings.actor_proxies,
    )


async def get_reader_identity(
    request: Request, principal: RequestPrincipal, settings: RequestSettings
) -> RequestIdentity:
    """Return the identity of a request that records nothing, and so takes no key."""
    return await get_request_identity(request, principal, settings)


ReaderIdentity = Annotated[RequestIdentity, Depends(get_reader_identity)]


CallerIdentity = Annotated[RequestIdentity, Depends(get_request_identity)]


def _check_key(request: Request, key: str | None) -> str | None:
    # FastAPI passes one of several headers and ignores the others.
    count = len(request.headers.getlist(IDEMPOTENCY_HEADER))
    if count > 1:
        raise Refused(
            "bad-key", f"the request has {count} keys", field=IDEMPOTENCY_HEADER, fix="send one"
        )
    if key is not None and _KEY_PATTERN.fullmatch(key) is None:
        fix = "send 1 to 200 printable ASCII characters"
        raise Refused("bad-key", "the key is invalid", field=IDEMPOTENCY_HEADER, fix=fix)
    return key
