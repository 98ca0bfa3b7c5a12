"""Which requests the gateway answers: those for its own hosts, and commands of its own page only.

A browser lets every page send requests to every address, so the network does not protect a gateway
on loopback. Two headers tell such requests apart, and no script can set them:

- `Host` has the name that the page was loaded from. A foreign name that was made to resolve to the
  gateway (DNS rebinding) would otherwise give its page every answer.
- `Origin` and `Sec-Fetch-Site` name the page that sent a request. The rule is that of Go's
  `http.CrossOriginProtection`, except that both headers must agree. Other clients send neither.

Starlette's `TrustedHostMiddleware` is not used: it cannot read IPv6 addresses, answers with plain
text, and does not look at the origin.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from turnlog.events.errors import Refused
from turnlog.services.http.problem_details import create_error_response
from turnlog.services.platform.loopback import is_loopback_host
from turnlog.services.platform.process_settings import HOST_PATTERN, GatewaySettings

READ_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

OWN_PAGE_SITES: Final = frozenset({"same-origin", "none"})
"""Values of `Sec-Fetch-Site` of the gateway's own page, and of what a user did in the browser.

`same-site` is not among them: pages of another port, or of a sister domain, are other pages.
"""

DEFAULT_PORTS: Final = {"http": "80", "https": "443"}

_AUTHORITY: Final = re.compile(rf"({HOST_PATTERN})(?::([0-9]{{1,5}}))?", re.IGNORECASE | re.ASCII)

_ORIGIN: Final = re.compile(r"(https?)://(.+)")


class Authority(NamedTuple):
    """The host and port of a URL."""

    host: str
    """Lower-case name or address; an IPv6 address has brackets."""
    port: str
    """Empty for the default port."""


def parse_authority(text: str) -> Authority | None:
    """Parse `host` or `host:port`; None for anything else."""
    found = _AUTHORITY.fullmatch(text)
    return Authority(found[1].lower(), found[2] or "") if found else None


def list_own_hosts(settings: GatewaySettings) -> frozenset[str]:
    """Return the configured hosts; loopback belongs to every gateway and is not among them."""
    listening = parse_authority(settings.http)
    return frozenset({*settings.hosts, *([listening.host] if listening else [])})


@dataclass(frozen=True, slots=True)
class RequestOriginMiddleware:
    """ASGI middleware that refuses requests for other hosts and commands from other pages.

    It runs after the body was read, since a client that is still sending would see a connection
    reset instead of the response.
    """

    app: ASGIApp
    own_hosts: Collection[str]
    """Hosts beside loopback that the gateway answers for."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                check_request_origin(scope["method"], Headers(scope=scope), self.own_hosts)
            except Refused as refused:
                await create_error_response(refused)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def check_request_origin(method: str, headers: Headers, own_hosts: Collection[str]) -> None:
    """Raise `Refused` `unknown-host` or `cross-site`."""
    named = ", ".join(headers.getlist("host"))
    addressed = parse_authority(named)
    if addressed is None or not _is_own_host(addressed.host, own_hosts):
        detail = f"the gateway does not answer for the host {named[:80]!r}"
        fix = "use localhost, or name the host in TURNLOG_HOSTS"
        raise Refused("unknown-host", detail, field="Host", fix=fix)
    if method in READ_METHODS:
        return
    for site in headers.getlist("sec-fetch-site"):
        if site not in OWN_PAGE_SITES:
            raise _create_cross_site_refusal("Sec-Fetch-Site", site, named)
    for origin in headers.getlist("origin"):
        if not _is_same_origin(origin, addressed):
            raise _create_cross_site_refusal("Origin", origin, named)


def _is_own_host(host: str, own_hosts: Collection[str]) -> bool:
    # In brackets is an address of IPv6, and only there.
    address = host[1:-1] if host.startswith("[") and ":" in host else host
    return host in own_hosts or is_loopback_host(address)


def _is_same_origin(origin: str, addressed: Authority) -> bool:
    """Return whether a page of this origin was loaded from the host that a request addresses.

    The scheme is not compared: behind a proxy that terminates TLS, the gateway does not know it.
    """
    found = _ORIGIN.fullmatch(origin)
    sender = parse_authority(found[2]) if found else None
    if found is None or sender is None:
        return False
    default = DEFAULT_PORTS[found[1]]
    return (sender.host, sender.port or default) == (addressed.host, addressed.port or default)


def _create_cross_site_refusal(header: str, value: str, host: str) -> Refused:
    return Refused(
        "cross-site",
        f"a page of another site sent this request: {header} is {value[:80]!r}, Host {host[:80]!r}",
        field=header,
        fix="use the gateway's own page; a proxy in front of it must pass on the Host header as"
        " it is, and TURNLOG_HOSTS must name that host",
    )
