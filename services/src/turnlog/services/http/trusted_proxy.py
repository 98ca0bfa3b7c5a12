"""On whose behalf a request is made: the user that a trusted proxy names in a header.

The gateway does not authenticate anybody. A proxy that does so names the user in one header, which
counts only if the connection comes from an address of `actor_proxies`. Anything else that sends the
header is refused rather than ignored, because its sender believes that it was recorded. The address
is that of the connection: `X-Forwarded-For` says what its sender wants it to say.

The actor is `user:` and the name, so that no user passes for a part of Turnlog. Requests without
the header have the actor `client`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

from fastapi import Request

from turnlog.contract.request_values import USER_NAME_FORM
from turnlog.events.errors import Refused
from turnlog.services.http.request_tenant import RequestSettings

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
