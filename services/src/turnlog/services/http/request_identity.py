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
from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.http.request_tenant import RequestSettings, RequestTenant
from turnlog.services.http.trusted_proxy import (
    CLIENT_ACTOR,
    USER_ACTOR_PREFIX,
    get_actor,
)
from turnlog.services.platform.telemetry.traces import get_traceparent

IDEMPOTENCY_HEADER: Final = "Idempotency-Key"

_KEY_PATTERN: Final = re.compile(r"[!-~]([ -~]{0,198}[!-~])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestIdentity:
    """The identity of a request, from which the caller of a use case follows."""

    tenant: str
    route: str
    """Method and path."""
    idempotency_key: str | None
    actor: str = CLIENT_ACTOR
    believes_field: bool = True
    """Whether a field of the request may name the user: only where no proxy is trusted to."""

    def create_caller(self, payload: BaseModel | None = None) -> Caller:
        """Return the caller of a use case; `payload` is the body of the request."""
        is_user = self.actor.startswith(USER_ACTOR_PREFIX)
        return Caller(
            tenant=self.tenant,
            metadata=CommandMetadata(self.actor, traceparent=get_traceparent()),
            command=self.create_command_key(payload),
            user=self.actor.removeprefix(USER_ACTOR_PREFIX) if is_user else None,
            may_name_user=self.believes_field,
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
    tenant: RequestTenant,
    settings: RequestSettings,
    actor: Annotated[str, Depends(get_actor)],
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
    believes_field = not settings.actor_proxies
    return RequestIdentity(
        tenant=tenant,
        route=route,
        idempotency_key=_check_key(request, key),
        actor=actor,
        believes_field=believes_field,
    )


async def get_reader_identity(
    request: Request,
    tenant: RequestTenant,
    settings: RequestSettings,
    actor: Annotated[str, Depends(get_actor)],
) -> RequestIdentity:
    """Return the identity of a request that records nothing, and so takes no key."""
    return await get_request_identity(request, tenant, settings, actor)


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
