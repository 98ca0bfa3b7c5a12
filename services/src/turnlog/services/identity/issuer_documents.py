"""What an issuer publishes about itself, fetched with bounds and believed only from where it is.

Its discovery document must name the same issuer, and every address in it must be one that only its
host can answer: https, or loopback. Redirects are not followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from pydantic import JsonValue

from turnlog.projections.blueprint.bounded_json import parse_json
from turnlog.services.platform.loopback import is_loopback_host

FETCH_SECONDS: Final = 5.0
"""Seconds for what an issuer is asked for at once, such as its discovery document and its keys."""

MAX_ANSWER_BYTES: Final = 256 * 1024
"""Bytes of an answer of the issuer."""


class IssuerFault(Exception):
    """Why an issuer's answer cannot be used; the message repeats nothing that it sent."""


async def fetch_discovery(http: httpx.AsyncClient, issuer: str) -> Mapping[str, JsonValue]:
    """Fetch the discovery document of an issuer; raises `IssuerFault` and `InvalidJson`."""
    address = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    found = parse_json(await fetch_document(http, "GET", address))
    document = found if isinstance(found, dict) else {}
    if document.get("issuer") != issuer:
        raise IssuerFault("its discovery document names another issuer")
    return document


def get_address(document: Mapping[str, JsonValue], name: str, what: str) -> str:
    """Return an address of a discovery document; raises `IssuerFault` if it is not to be used."""
    address = document.get(name)
    if not isinstance(address, str) or not is_trusted_address(address):
        raise IssuerFault(f"its discovery document names no address of {what} with https")
    return address


async def fetch_document(
    http: httpx.AsyncClient,
    method: str,
    address: str,
    **form: Any,  # noqa: ANN401 - as httpx takes it
) -> bytes:
    """Return the body of a successful answer, of bounded size; raises `IssuerFault`."""
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    async with http.stream(method, address, headers=headers, **form) as answer:
        if answer.status_code != HTTPStatus.OK:
            raise IssuerFault(f"it answered {answer.status_code}")
        body = bytearray()
        async for piece in answer.aiter_raw():
            body += piece
            if len(body) > MAX_ANSWER_BYTES:
                raise IssuerFault(f"it answered more than {MAX_ANSWER_BYTES} bytes")
            await asyncio.sleep(0)
    return bytes(body)


def is_trusted_address(address: str) -> bool:
    """Return whether what is read from an address is what its host sent: https, or loopback."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.username is not None or parts.password is not None or not host:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback_host(host))
