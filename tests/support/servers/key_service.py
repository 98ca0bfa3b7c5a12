"""A service of keys on loopback that wraps as Vault's transit engine does, and can be stopped."""

from __future__ import annotations

import json
import secrets
from base64 import b64decode, b64encode
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

TOKEN: Final = "s.token-of-the-test"

_NONCE_BYTES: Final = 12


@dataclass(repr=False)
class KeyService:
    """A key with its versions; what it is asked may change while it runs."""

    versions: list[bytes] = field(default_factory=lambda: [secrets.token_bytes(32)])
    requests: list[str] = field(default_factory=list[str])
    """The last word of each path that was requested."""
    port: int = 0
    denied_actions: set[str] = field(default_factory=set[str])
    """What it answers with 503, as one that nobody has unsealed: `encrypt`, `decrypt`."""
    has_denied: Event = field(default_factory=Event)
    """Set once it has done so."""

    @property
    def address(self) -> str:
        """What `TURNLOG_KEYRING` is set to."""
        return f"vault+http://127.0.0.1:{self.port}/turnlog"

    def rotate_key(self) -> None:
        self.versions.append(secrets.token_bytes(32))

    def answer_request(self, path: str, token: str | None, body: dict[str, str]) -> tuple[int, Any]:
        """Return status and answer of a request."""
        action = path.split("/")[-2]
        self.requests.append(action)
        if action in self.denied_actions:
            self.has_denied.set()
            return 503, {"errors": ["Vault is sealed"]}
        if token != TOKEN:
            return 403, {"errors": ["permission denied"]}
        bound = b64decode(body["associated_data"])
        if path == "/v1/transit/encrypt/turnlog":
            nonce = secrets.token_bytes(_NONCE_BYTES)
            sealed = AESGCM(self.versions[-1]).encrypt(nonce, b64decode(body["plaintext"]), bound)
            made = b64encode(nonce + sealed).decode()
            return 200, {"data": {"ciphertext": f"vault:v{len(self.versions)}:{made}"}}
        if path == "/v1/transit/decrypt/turnlog":
            _, version, text = body["ciphertext"].split(":")
            packed, key = b64decode(text), self.versions[int(version[1:]) - 1]
            try:
                opened = AESGCM(key).decrypt(packed[:_NONCE_BYTES], packed[_NONCE_BYTES:], bound)
            except InvalidTag:
                return 400, {"errors": ["cipher: message authentication failed"]}
            return 200, {"data": {"plaintext": b64encode(opened).decode()}}
        return 404, {"errors": []}


@contextmanager
def run_key_service(service: KeyService) -> Generator[KeyService]:
    """Serve while the body runs, at the port of an earlier run if there was one."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            body = json.loads(self.rfile.read(length))
            status, answer = service.answer_request(
                self.path, self.headers.get("X-Vault-Token"), body
            )
            encoded = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called there
            pass

    server = ThreadingHTTPServer(("127.0.0.1", service.port), Handler)
    service.port = server.server_port
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
