"""The addresses that webhooks may be delivered to: those that the settings allow, and no others.

An operator names origins (scheme, host and port), because a gateway or a projector reaches
addresses that whoever adds a webhook may not. A name is trusted wherever it leads, since who allows
it may mean an address of the own network. Redirects are not followed, and no proxy is used.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final
from urllib.parse import SplitResult, urlsplit

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.sent_names import format_sent_name
from turnlog.services.platform.process_settings import HOST_PATTERN

MAX_URL_CHARACTERS: Final = 2_000

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_PRINTABLE: Final = re.compile(r"[!-~]+")


def check_target(url: str, allowed: Collection[str]) -> None:
    """Raise `Refused` unless the settings allow deliveries to this address."""
    if fault := find_target_fault(url, allowed):
        fix = "use an address of TURNLOG_WEBHOOK_TARGETS, or name its origin there"
        raise Refused("webhook-target", fault, field="url", fix=fix)


def find_target_fault(url: str, allowed: Collection[str]) -> str | None:
    """Return why nothing is delivered to an address, or None."""
    if len(url) > MAX_URL_CHARACTERS:
        return f"the address has {len(url)} characters, {MAX_URL_CHARACTERS} are allowed"
    origin = parse_origin(url)
    if origin is None:
        return "the address is no URL such as `https://host/path`, without user and fragment"
    if origin not in {parse_origin(each) for each in allowed}:
        shown = format_sent_name(origin)
        return f"{shown} is no origin that webhooks may be delivered to"
    return None


def parse_origin(url: str) -> str | None:
    """Return scheme, host and port of a URL that a webhook may have; None for any other text."""
    if _PRINTABLE.fullmatch(url) is None or "\\" in url:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or "@" in parts.netloc or "#" in url:
        return None
    host = _get_host(parts)
    if re.fullmatch(HOST_PATTERN, host) is None:
        return None
    return f"{parts.scheme}://{host}:{_DEFAULT_PORTS[parts.scheme] if port is None else port}"


def _get_host(parts: SplitResult) -> str:
    host = (parts.hostname or "").lower()
    return f"[{host}]" if ":" in host else host
