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
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.gateway.dependencies import Dependencies, RequestTenant
from turnlog.services.gateway.http.trusted_proxy import (
    CLIENT_ACTOR,
    USER_ACTOR_PREFIX,
    get_actor,
)
from turnlog.services.platform.telemetry.traces import get_traceparent

IDEMPOTENCY_HEADER: Final = "Idempotency-Key"

_KEY_PATTERN: Final = re.compile(r"[!-~]([ -~]{0,198}[!-~])?")


@dataclass(frozen=True, slots=True)
class RequestIdentity:
    """The identity of a request as the event log records it."""

    tenant: str
    route: str
    """Method and path."""
    idempotency_key: str | None
    actor: str = CLIENT_ACTOR
    believes_field: bool = True
    """Whether a field of the request may name the user: only where no proxy is trusted to."""

    @property
    def user(self) -> str | None:
        """The user that a trusted proxy named, or None."""
        is_user = self.actor.startswith(USER_ACTOR_PREFIX)
        return self.actor.removeprefix(USER_ACTOR_PREFIX) if is_user else None

    def choose_user(self, named: str | None) -> str | None:
        """Return who asks: the user that the proxy named, else the one of the request's field.

        Raises `Refused` for a field that cannot be believed.
        """
        if named is None or named == self.user:
            return self.user
        if self.believes_field:
            return named
        detail = "only the trusted proxy names users here"
        raise Refused("user-not-trusted", detail, field="user", fix="leave the field out")

    @property
    def author(self) -> CommandMetadata:
        """The actor and trace context that are recorded with appended events."""
        return CommandMetadata(self.actor, traceparent=get_traceparent())

    def create_command_key(self, payload: BaseModel | None = None) -> codec.CommandRef | None:
        """Return the key with the digest of the request, or None without a key."""
        if self.idempotency_key is None:
            return None
        body = payload.model_dump(mode="json") if payload else None
        request = {"route": self.route, "body": body}
        canonical = json.dumps(request, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return codec.CommandRef(self.idempotency_key, compute_digest(canonical))

    def derive_session_id(self) -> str | None:
        """Return the session id derived from the key, so that a retry finds the session.

        Or None.
        """
        if self.idempotency_key is None:
            return None
        return compute_digest(f"{self.tenant}\n{self.idempotency_key}").removeprefix("sha256:")[:32]


async def get_request_identity(
    request: Request,
    tenant: RequestTenant,
    deps: Dependencies,
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
    believes_field = not deps.settings.actor_proxies
    return RequestIdentity(tenant, route, _check_key(request, key), actor, believes_field)


async def get_reader_identity(
    request: Request,
    tenant: RequestTenant,
    deps: Dependencies,
    actor: Annotated[str, Depends(get_actor)],
) -> RequestIdentity:
    """Return the identity of a request that records nothing, and so takes no key."""
    return await get_request_identity(request, tenant, deps, actor)


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
