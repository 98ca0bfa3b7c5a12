"""Checkpoints put to an address: an object store, or any server that takes a PUT of a file."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import httpx
from pydantic import SecretStr

from turnlog.client.trusted_certificates import create_tls_context
from turnlog.events.errors import Refused, Unavailable
from turnlog.services.platform.loopback import is_loopback_host

TIMEOUT_SECONDS: Final = 60.0


def parse_upload_address(address: str, *, has_token: bool) -> str:
    """Return the prefix of an http(s) address; raises `Refused` for one that takes no files."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    if parts.scheme not in {"http", "https"} or not host:
        detail, fix = f"{address} is no http(s) address", "name a folder, or https://HOST/PREFIX"
    elif parts.query or parts.fragment or parts.username is not None:
        detail, fix = "the address has more than host and path", "give the token in a file"
    elif has_token and parts.scheme == "http" and not is_loopback_host(host):
        detail, fix = "a token goes over https, or stays on this machine", "use https"
    else:
        return address.rstrip("/")
    raise Refused("invalid", detail, field="--to", fix=fix)


@dataclass(frozen=True, slots=True)
class CheckpointUpload:
    """Where files are put, below a prefix."""

    prefix: str
    token: SecretStr | None

    async def put_file(self, name: str, content: bytes) -> None:
        """Put a file unless there is one of its name; raises `Unavailable` if it is not taken.

        `If-None-Match: *` is what object stores know: they answer 412 rather than overwrite.
        """
        headers = {"Content-Type": "application/json", "If-None-Match": "*"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token.get_secret_value()}"
        url = f"{self.prefix}/{name}"
        try:
            async with httpx.AsyncClient(
                timeout=TIMEOUT_SECONDS, verify=create_tls_context(url)
            ) as http:
                answer = await http.put(url, content=content, headers=headers)
        except httpx.HTTPError as error:
            detail = f"{url} does not answer ({type(error).__name__})"
            raise Unavailable("the place of checkpoints", detail) from error
        if not answer.is_success and answer.status_code != HTTPStatus.PRECONDITION_FAILED:
            detail = f"{url} answered {answer.status_code}"
            raise Unavailable("the place of checkpoints", detail)
