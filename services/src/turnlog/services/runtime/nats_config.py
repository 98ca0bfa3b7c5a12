"""A real nats-server as a child process, for one machine and for tests.

One Turnlog process at a time may use a data directory, because two servers on one store would ruin
it. Port and password stay the same over restarts, so that clients reconnect. The configuration is
written at every start, so that no manual edit or older release can weaken what a 2xx promises:
every acknowledgement waits for fsync. The server listens on loopback only, because it has a
password but no TLS; operators run their own server for other hosts (see `deploy/`).

A file lock protects the data directory. Process ids are no substitute, because they are reused; the
kernel frees the lock of a killed holder. The server inherits the lock of its run and may keep it
after its parent was killed, so the next run finds that server and stops it. Nothing else supervises
the server: the caller awaits `wait_for_exit` and decides what to do.
"""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from turnlog.events.errors import Refused

NATS_USER = "turnlog"
MAX_PAYLOAD = 4 * 1024 * 1024
RANDOM_PORT = -1
"""nats-server uses its default port for 0 and any free port for -1."""


@dataclass(frozen=True, slots=True)
class NatsConfig:
    """Address and data directory of one server; everything it writes is under `data_dir`."""

    data_dir: Path
    host: str = "127.0.0.1"
    port: int = 0
    """0 is any free port."""
    monitor: bool = False
    """Serve nats-server's own monitoring pages on a free loopback port."""

    @property
    def credentials_file(self) -> Path:
        return self.data_dir / "credentials"

    @property
    def config_file(self) -> Path:
        return self.data_dir / "server.conf"

    @property
    def pid_file(self) -> Path:
        return self.data_dir / "server.pid"

    @property
    def log_file(self) -> Path:
        return self.data_dir / "server.log"


def write_config(config: NatsConfig) -> str:
    """Write the configuration, and credentials if there are none; return the password."""
    _refuse_beyond_loopback(config.host)
    password = _load_password(config.credentials_file)
    _write_private_file(config.config_file, _render_config(config, password))
    return password


def _refuse_beyond_loopback(host: str) -> None:
    if host == "localhost" or _is_loopback(host):
        return
    raise Refused(
        "beyond-loopback",
        f"the embedded nats-server has no TLS and will not listen on {host}",
        field="nats",
        fix="listen on 127.0.0.1, or run a nats-server of your own with TLS and give its url",
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _load_password(path: Path) -> str:
    if not path.exists():
        _write_private_file(path, f"{NATS_USER}:{secrets.token_urlsafe(32)}\n")
    return path.read_text().strip().removeprefix(f"{NATS_USER}:")


def _write_private_file(path: Path, text: str) -> None:
    # Written to a temporary file and renamed, so that a crash never leaves half a file.
    aside = path.with_name(f"{path.name}.new")
    aside.unlink(missing_ok=True)
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    aside.replace(path)


def _render_config(config: NatsConfig, password: str) -> str:
    # One setting on each line: in a one-line block the server ignores a setting after a missing
    # comma, and an ignored sync_interval can lose two minutes of acknowledged writes in a power
    # failure.
    lines = [
        "server_name: turnlog",
        f"host: {_quote_value(config.host)}",
        f"port: {config.port or RANDOM_PORT}",
        f"max_payload: {MAX_PAYLOAD}",
        f"pid_file: {_quote_value(config.pid_file)}",
        f"ports_file_dir: {_quote_value(config.data_dir)}",
        "jetstream {",
        f"  store_dir: {_quote_value(config.data_dir)}",
        "  sync_interval: always",
        "}",
        "authorization {",
        f"  user: {_quote_value(NATS_USER)}",
        f"  password: {_quote_value(password)}",
        "}",
    ]
    if config.monitor:
        lines.append(f'http: "127.0.0.1:{RANDOM_PORT}"')
    return "\n".join([*lines, ""])


def _quote_value(value: str | Path) -> str:
    return json.dumps(str(value), ensure_ascii=False)
