"""Settings: one frozen class a process, all defaults readable here, read once at the start.

Every setting is also an environment variable with the prefix `TURNLOG_`: `ack_wait` is
`TURNLOG_ACK_WAIT`. A variable with that prefix that no process knows is refused by name, since a
misspelt setting is worse than a missing one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

Seconds = Annotated[float, Field(gt=0)]


def _parted(value: object) -> object:
    return tuple(filter(None, value.split(os.pathsep))) if isinstance(value, str) else value


Folders = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_parted)]
"""Folders, in one variable parted as in `PATH`."""


class Process(BaseSettings):
    """What every process needs to know."""

    model_config = SettingsConfigDict(env_prefix="TURNLOG_", frozen=True)

    nats_url: SecretStr = SecretStr("nats://127.0.0.1:4222")
    """Where NATS is; it may hold a user and a password."""
    replicas: Annotated[int, Field(ge=1, le=5)] = 1
    """Copies of each stream that NATS keeps; 3 in a cluster."""
    durability: Literal["fsync-acked", "replicated", "relaxed"] = "fsync-acked"
    """What an acknowledgement must mean; a server known to give less is refused."""
    tenant: str = "default"
    """Whose sessions are meant where nobody says."""
    log_format: Literal["console", "json"] = "console"
    """How this process writes its own log."""
    otlp_endpoint: str | None = None
    """Where traces go, an OTLP address over HTTP; without one there are none."""
    grace: Seconds = 10.0
    """Seconds to finish or hand back what is under way when the process is told to stop."""
    nats_monitor: str | None = None
    """The server's monitoring address, `http://host:port`, where its fsync setting is read."""


class GatewaySettings(Process):
    """The HTTP front door."""

    http: str = "127.0.0.1:8700"
    """Host and port to listen on; port 0 is any free one."""
    database_url: SecretStr = SecretStr("sqlite+aiosqlite:///turnlog.db")
    """The read models, as SQLAlchemy spells it."""
    blueprints: Folders = ()
    """Folders of blueprints beside the shipped ones, parted by `:`."""
    body_limit: Annotated[int, Field(ge=1024)] = 262_144
    """Bytes a request body may have."""
    import_limit: Annotated[int, Field(ge=1024)] = 8 * 1024 * 1024
    """The same for an import of segments, and for the folder of a blueprint that is supposed."""
    body_seconds: Seconds = 10.0
    """Seconds a client may take to send it, and as many for the head before it."""
    keep_alive: Seconds = 15.0
    """Seconds between signs of life on an event stream."""
    reader_seconds: Seconds = 20.0
    """Seconds that a reader of an event stream may keep one write waiting, before it is cut."""
    model: str = "scripted/demo"
    """The model that windows are shown for where a profile says `default`."""
    ask: str = "araquem"
    """The blueprint behind `/v1/ask`."""


class WorkerSettings(Process):
    """The process that calls models."""

    health: str | None = None
    """Host and port where the process tells how it is; nowhere without one."""

    model: str = "scripted/demo"
    """The model of profiles that say `default`, as litellm names it; `off` asks none."""
    scripts: Path | None = None
    """Folder of scripts for `scripted/...` models, beside the shipped ones."""
    blueprints: Folders = ()
    """Folders of blueprints beside the shipped ones, parted by `:`."""
    concurrency: Annotated[int, Field(ge=1, le=512)] = 32
    """Turns answered at once."""
    ack_wait: Seconds = 30.0
    """Seconds of silence after which another worker may take a turn over."""


class ProjectorSettings(Process):
    """The process that keeps the read models."""

    health: str | None = None
    """Host and port where the process tells how it is; nowhere without one."""

    database_url: SecretStr = SecretStr("sqlite+aiosqlite:///turnlog.db")
    """The read models, as SQLAlchemy spells it."""
