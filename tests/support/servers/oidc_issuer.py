"""An OpenID Connect issuer on loopback: its keys, the tokens it makes, and its faults."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import secrets
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.api_jws import PyJWS

AUDIENCE: Final = "turnlog"

RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")

ALGORITHMS: Final = (*RSA_ALGORITHMS, "ES256", "ES384", "EdDSA")


@dataclass(frozen=True)
class SigningKey:
    key: Any
    jwk: dict[str, Any]
    key_id: str


@cache
def create_rsa_key(key_id: str, bits: int = 2048) -> SigningKey:
    private = rsa.generate_private_key(65537, bits)
    jwk = RSAAlgorithm.to_jwk(private.public_key(), as_dict=True)
    return SigningKey(private, dict(jwk) | {"kid": key_id}, key_id)


@cache
def create_signing_key(algorithm: str) -> SigningKey:
    """Return a key for an algorithm, whose id is that of its kind."""
    if algorithm in RSA_ALGORITHMS:
        return create_rsa_key("rsa")
    if algorithm == "EdDSA":
        edwards = ed25519.Ed25519PrivateKey.generate()
        jwk = OKPAlgorithm.to_jwk(edwards.public_key(), as_dict=True)
        return SigningKey(edwards, dict(jwk) | {"kid": "edwards"}, "edwards")
    curve = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}[algorithm]
    elliptic = ec.generate_private_key(curve)
    jwk = ECAlgorithm.to_jwk(elliptic.public_key(), as_dict=True)
    return SigningKey(elliptic, dict(jwk) | {"kid": algorithm}, algorithm)


@dataclass(repr=False)
class OidcIssuer:
    """The issuer; its attributes may change while it runs."""

    address: str = ""
    keys: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    named: str | None = None
    """The issuer that the discovery document names, if it is another one."""
    keys_address: str | None = None
    answer: bytes | None = None
    """The body of the key set, where it is none."""
    status: str = "200 OK"
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """What every answer waits for; set unless a test clears it."""
    fetched: list[str] = field(default_factory=list[str])
    """The paths that were fetched."""
    client_secret: str | None = None
    """The secret of the client that exchanges codes; None for a public client."""
    denies: bool = False
    """Whether the person at the browser does not let the client in."""
    token_changes: dict[str, Any] = field(default_factory=dict[str, Any])
    """What is otherwise in the tokens that codes are exchanged for."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """The requests that codes were made for; a code is exchanged once."""

    def create_token(
        self,
        algorithm: str = "RS256",
        *,
        key: SigningKey | None = None,
        header: dict[str, Any] | None = None,
        without: tuple[str, ...] = (),
        **changes: object,
    ) -> str:
        """Return a token that is good but for the changes."""
        signing = key or create_signing_key(algorithm)
        claims = create_claims(self.address) | changes
        payload = json.dumps({name: claims[name] for name in claims if name not in without})
        headers = {"kid": signing.key_id} | (header or {})
        kept = {name: value for name, value in headers.items() if value is not None}
        return PyJWS().encode(payload.encode(), signing.key, algorithm, headers=kept)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = urlsplit(head.split(" ")[1])
            self.fetched.append(path.path)
            sent = re.search(r"(?i)content-length: *([0-9]+)", head)
            form = (await reader.readexactly(int(sent[1]))).decode() if sent else ""
            await self.gate.wait()
            status, headers, body = self.status, "", b""
            if path.path == "/authorize":
                status, headers = "303 See Other", f"Location: {self._authorize(path.query)}\r\n"
            elif path.path == "/token":
                status, body = self._exchange_code(head, dict(parse_qsl(form)))
            else:
                is_replaced = self.answer is not None and path.path == "/keys"
                body = self.answer or b"" if is_replaced else self._build_body(path.path)
            length = f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write(f"HTTP/1.1 {status}\r\n{headers}{length}".encode() + body)
            await writer.drain()
        writer.close()

    def _authorize(self, query: str) -> str:
        """Return where a browser is sent back to: the person signs in at once."""
        asked = dict(parse_qsl(query))
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        answer = {"state": asked["state"], "session_state": "1", "iss": self.address}
        if self.denies:
            answer["error"] = "access_denied"
        else:
            answer["code"] = secrets.token_urlsafe(16)
            self.codes[answer["code"]] = asked
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def _exchange_code(self, head: str, form: dict[str, str]) -> tuple[str, bytes]:
        asked = self.codes.pop(form.get("code", ""), None)
        challenge = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        is_proven = asked is not None and all(
            (
                form.get("grant_type") == "authorization_code",
                form.get("redirect_uri") == asked["redirect_uri"],
                form.get("client_id") == asked["client_id"],
                encode_segment(challenge) == asked["code_challenge"],
                self._has_secret(head, asked["client_id"]),
            )
        )
        if asked is None or not is_proven:
            return "400 Bad Request", b'{"error": "invalid_grant"}'
        claims: dict[str, Any] = {
            "nonce": asked["nonce"],
            "aud": asked["client_id"],
        } | self.token_changes
        tokens = {"id_token": self.create_token(**claims), "access_token": self.create_token()}
        return "200 OK", json.dumps(tokens | {"token_type": "Bearer"}).encode()

    def _has_secret(self, head: str, client: str) -> bool:
        sent = re.search(r"(?i)authorization: *basic +(\S+)", head)
        if self.client_secret is None:
            return sent is None
        expected = f"{quote(client, safe='')}:{quote(self.client_secret, safe='')}"
        return sent is not None and b64decode(sent[1]).decode() == expected

    def _build_body(self, path: str) -> bytes:
        if path == "/keys":
            return json.dumps({"keys": self.keys}).encode()
        discovery = {
            "issuer": self.named or self.address,
            "jwks_uri": self.keys_address or f"{self.address}/keys",
            "authorization_endpoint": f"{self.address}/authorize",
            "token_endpoint": f"{self.address}/token",
        }
        return json.dumps(discovery).encode()


def create_claims(issuer: str) -> dict[str, Any]:
    now = int(time.time())
    return {
        "iss": issuer,
        "aud": AUDIENCE,
        "sub": "ada",
        "iat": now,
        "exp": now + 300,
        "roles": ["caller"],
    }


def encode_segment(value: object) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


@asynccontextmanager
async def run_oidc_issuer() -> AsyncGenerator[OidcIssuer]:
    """Run an issuer that publishes a key of each kind."""
    issuer = OidcIssuer()
    issuer.gate.set()
    server = await asyncio.start_server(issuer.handle, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()[:2]
        issuer.address = f"http://{host}:{port}"
        kinds = ("RS256", "ES256", "ES384", "EdDSA")
        issuer.keys = [dict(create_signing_key(kind).jwk) for kind in kinds]
        yield issuer
        issuer.gate.set()
