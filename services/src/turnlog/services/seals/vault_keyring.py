"""A keyring in a service of keys that speaks the protocol of HashiCorp Vault's transit engine.

The keys never leave that service: each session's are sent there to be wrapped once, when it is
opened, and to be unwrapped once by each process that reads it. A generation is a version of the
key, which is added by rotating it there.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from turnlog.events.errors import Refused, Unavailable
from turnlog.events.seals.keyrings import KeyringUnfit, WrappedKeys
from turnlog.services.extensions.bounded_json_post import EndpointResponse, post_json

REQUEST_SECONDS: Final = 10.0
"""Seconds that a request may take."""

MAX_ANSWER_BYTES: Final = 65_536

RETRY_SECONDS: Final = 5.0
"""Seconds after which a request is worth repeating."""

_CIPHERTEXT: Final = re.compile(r"vault:v([1-9][0-9]{0,8}):([A-Za-z0-9+/]+={0,2})")


class _Data(BaseModel):
    ciphertext: str = ""
    plaintext: str = ""


class _Answer(BaseModel):
    data: _Data


class _Fault(BaseModel):
    errors: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True, eq=False)
class VaultKeyring:
    """Wraps keys by requests to a service."""

    mount: str
    """Address of the engine, such as `https://vault.example.org:8200/v1/transit`."""
    key: str
    """The name of its key."""
    token: str | None = field(repr=False)
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context, repr=False)
    newest: int = 0
    """The newest generation that an answer has named."""

    async def find_generation(self) -> int:
        """See `SealKeyring.find_generation`; what was wrapped last tells it."""
        if not self.newest:
            await self.wrap_keys("", b"\0")
        return self.newest

    async def wrap_keys(self, tenant: str, keys: bytes) -> WrappedKeys:
        """See `SealKeyring.wrap_keys`."""
        answer = await self._send_request("encrypt", tenant, plaintext=b64encode(keys).decode())
        found = _CIPHERTEXT.fullmatch(self._read_data(answer).ciphertext)
        if found is None:
            raise self._build_outage("it answers with no ciphertext")
        self.newest = max(self.newest, int(found[1]))
        return WrappedKeys(int(found[1]), b64decode(found[2]))

    async def unwrap_keys(self, tenant: str, keys: WrappedKeys) -> bytes:
        """See `SealKeyring.unwrap_keys`."""
        ciphertext = f"vault:v{keys.generation}:{b64encode(keys.wrapped).decode()}"
        answer = await self._send_request("decrypt", tenant, ciphertext=ciphertext)
        if answer.status == HTTPStatus.BAD_REQUEST:
            raise KeyringUnfit("keyring", f"generation {keys.generation}: {_read_reason(answer)}")
        return b64decode(self._read_data(answer).plaintext)

    async def _send_request(self, action: str, tenant: str, **sent: str) -> EndpointResponse:
        """Send a request, bound to a tenant, so that nothing opens under the name of another."""
        bound = b64encode(f"turnlog tenant {tenant}".encode()).decode()
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                return await post_json(
                    url=f"{self.mount}/{action}/{self.key}",
                    value={**sent, "associated_data": bound},
                    max_bytes=MAX_ANSWER_BYTES,
                    headers={"X-Vault-Token": self.token} if self.token else None,
                    tls=self.tls,
                )
        except (httpx.HTTPError, TimeoutError) as error:
            raise self._build_outage(f"it does not answer ({type(error).__name__})") from None

    def _read_data(self, answer: EndpointResponse) -> _Data:
        """Return the data of an answer; raises `Unavailable` for one that has none."""
        if answer.status != HTTPStatus.OK:
            fix = ": set TURNLOG_KEYRING_TOKEN" if answer.status == HTTPStatus.FORBIDDEN else ""
            raise self._build_outage(f"it answers {answer.status} {_read_reason(answer)}{fix}")
        try:
            return _Answer.model_validate_json(answer.body).data
        except ValidationError:
            raise self._build_outage("its answer is none of this protocol") from None

    def _build_outage(self, reason: str) -> Unavailable:
        place = f"{self.mount}, which TURNLOG_KEYRING names"
        return Unavailable("keyring", f"{place}: {reason}", retry_after=RETRY_SECONDS)


def _read_reason(answer: EndpointResponse) -> str:
    """Return the errors of an answer in a form that is safe to show."""
    try:
        said = "; ".join(_Fault.model_validate_json(answer.body).errors)
    except ValidationError:
        said = ""
    return "".join(each if each.isprintable() else " " for each in said)[:200]


def create_keyring(address: str, token: str | None) -> VaultKeyring:
    """Return the keyring at an address: `http(s)://HOST:PORT/KEY`, or `.../MOUNT/KEY`."""
    parts = urlsplit(address)
    *mount, key = parts.path.strip("/").split("/")
    if parts.scheme not in {"http", "https"} or not parts.hostname or not key or parts.query:
        detail = f"it is no address such as vault+https://{parts.hostname or 'HOST'}:8200/KEY"
        raise Refused("bad-keyring", detail, field="TURNLOG_KEYRING", fix="write one")
    if parts.username or parts.password:
        fix = "take it out of there, and set TURNLOG_KEYRING_TOKEN"
        raise Refused("bad-keyring", "it has a secret in it", field="TURNLOG_KEYRING", fix=fix)
    engine = "/".join(mount) or "transit"
    place = f"{parts.scheme}://{parts.netloc}/v1/{engine}"
    return VaultKeyring(mount=place, key=quote(key, safe=""), token=token)
