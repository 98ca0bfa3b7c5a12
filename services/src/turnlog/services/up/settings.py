from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import SecretStr

from turnlog.services.runtime.settings import (
    GatewaySettings,
    ProcessSettings,
    ProjectorSettings,
    WorkerSettings,
)

Role = TypeVar("Role", bound=ProcessSettings)


class AllInOneSettings(GatewaySettings, WorkerSettings, ProjectorSettings):
    """Settings of `turnlog up`: one process with all roles, and a nats-server as its child."""

    data_dir: Path = Path(".turnlog")
    """Directory of the log and the read models."""
    nats: str = "127.0.0.1:0"
    """Host and port of the nats-server; port 0 is any free one."""
    ready_file: Path | None = None
    """Written when everything accepts work; `ready.json` in the data directory by default."""

    def build_role_settings(self, role: type[Role], url: str, monitor: str | None) -> Role:
        """Return the settings of one role, pointed at the server and database of this process."""
        own = {name: getattr(self, name) for name in role.model_fields}
        database = f"sqlite:///{self.data_dir.absolute() / 'read-models.db'}"
        placed = {
            "nats_url": SecretStr(url),
            "nats_monitor": monitor,
            "database_url": SecretStr(database),
            # The gateway in this process reports its health.
            "health": None,
        }
        return role.model_validate(own | {name: placed[name] for name in placed if name in own})
