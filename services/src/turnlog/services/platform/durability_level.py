"""The durability levels, as settings, readiness and the record of a process name them.

- `fsync-acked`: an acknowledged event was written with fsync.
- `replicated`: it was also written by most of three servers or more.
- `relaxed`: the server has it, and writes it later.
"""

from __future__ import annotations

from typing import Literal

DurabilityLevel = Literal["fsync-acked", "replicated", "relaxed"]
