"""Settings of `turnlog up`: those of every role, and where its data lies."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import SecretStr

from turnlog.services.runtime.settings import (
    GatewaySettings,
    Process,
    ProjectorSettings,
    WorkerSettings,
)

Role = TypeVar("Role", bound=Process)


class UpSettings(GatewaySettings, WorkerSettings, ProjectorSettings):
    """One process with all roles, and a nats-server as its child."""

    data_dir: Path = Path(".turnlog")
    """Where the log and the read models lie."""
    nats: str = "127.0.0.1:0"
    """Host and port of the nats-server; port 0 is any free one."""
    ready_file: Path | None = None
    """Written when everything accepts work; `ready.json` in the data directory by default."""

    def for_role(self, role: type[Role], url: str, monitor: str | None) -> Role:
        """Give one role's settings, pointed at the parts this process has started."""
        own = {name: getattr(self, name) for name in role.model_fields}
        database = f"sqlite:///{self.data_dir.absolute() / 'read-models.db'}"
        placed = {
            "nats_url": SecretStr(url),
            "nats_monitor": monitor,
            "database_url": SecretStr(database),
            # The gateway in this process tells how it is
            "health": None,
        }
        return role.model_validate(own | {name: placed[name] for name in placed if name in own})
