"""The identity of a request: its tenant, actor, route and idempotency key.

The gateway does not authenticate anybody. A proxy that does so names the user in one header, which
counts only if the connection comes from an address of `actor_proxies`. Anything else that sends the
header is refused rather than ignored, because its sender believes that it was recorded. The address
is that of the connection: `X-Forwarded-For` says what its sender wants it to say. The actor is
`user:` and the name, so that no user passes for a part of Turnlog. Requests without the header have
the actor `client`.

An idempotency key identifies one request: its method, path and body in canonical JSON. The gateway
handles the same request with the same key once and repeats the answer. The session's record of keys
refuses a different request with the same key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Annotated, Final

from fastapi import Depends, Header, Request
from pydantic import BaseModel

from turnlog.contract.request_values import USER_NAME_FORM
from turnlog.events import codec
from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.http.request_tenant import RequestSettings, RequestTenant
from turnlog.services.platform.telemetry.traces import get_traceparent

CLIENT_ACTOR: Final = "client"

USER_ACTOR_PREFIX: Final = "user:"

_USER_NAME: Final = re.compile(USER_NAME_FORM)
"""Printable ASCII, because a header has no encoding that all proxies agree on."""


async def get_actor(request: Request, settings: RequestSettings) -> str:
    """Return the actor of a request; raises `Refused` for a header that cannot be believed."""
    header = settings.actor_header
    names = request.headers.getlist(header)
    if not names:
        return CLIENT_ACTOR
    _check_sender(request, header, settings.actor_proxies)
    if len(names) > 1:
        detail = f"the request names {len(names)} users"
        fix = "let the proxy set the header instead of adding one"
        raise Refused("bad-actor", detail, field=header, fix=fix)
    if _USER_NAME.fullmatch(names[0]) is None:
        fix = "send 1 to 128 printable ASCII characters, or leave the header out"
        raise Refused("bad-actor", "the name of the user is invalid", field=header, fix=fix)
    return f"{USER_ACTOR_PREFIX}{names[0]}"


def _check_sender(
    request: Request, header: str, trusted: Collection[IPv4Network | IPv6Network]
) -> None:
    if not trusted:
        detail = "this gateway takes no user's name from a header: no proxy is trusted to send it"
        fix = "leave the header out, or name the proxy's address in TURNLOG_ACTOR_PROXIES"
        raise Refused("actor-not-configured", detail, field=header, fix=fix)
    sender = request.client.host if request.client else ""
    if not is_trusted_sender(sender, trusted):
        detail = f"{sender or 'the sender'} is not trusted to name a user"
        fix = "send the request through the proxy, or name the address in TURNLOG_ACTOR_PROXIES"
        raise Refused("actor-not-trusted", detail, field=header, fix=fix)


def is_trusted_sender(sender: str, trusted: Collection[IPv4Network | IPv6Network]) -> bool:
    """Return whether an address belongs to one of the networks."""
    try:
        address: IPv4Address | IPv6Address = ip_address(sender)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in trusted)


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
