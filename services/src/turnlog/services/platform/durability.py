"""What an acknowledgement guarantees, read from the server where that is possible.

An acknowledged event must survive a power failure: by fsync before the acknowledgement, or by
copies on several servers that fsync. A server known to give less is refused. A server without a
monitoring address is trusted, and every report of the level says that it was not checked.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from turnlog.events.errors import Corrupt, Unavailable

DurabilityLevel = Literal["fsync-acked", "replicated", "relaxed"]


@dataclass(frozen=True, slots=True)
class Durability:
    """The level in force, and whether the server itself was asked."""

    level: DurabilityLevel
    checked: bool


async def check_durability(
    wanted: DurabilityLevel, replicas: int, monitor: str | None
) -> Durability:
    """Return the level in force; raise `Corrupt` when it is less than required."""
    if wanted == "relaxed":
        return Durability("relaxed", checked=monitor is not None)
    if wanted == "replicated" and replicas < 3:  # noqa: PLR2004 - the fewest that outlive one loss
        raise Corrupt("durability", f"`replicated` needs 3 replicas, there are {replicas}")
    if monitor is None:
        return Durability(wanted, checked=False)
    if not await asyncio.to_thread(_has_sync_always, monitor):
        fix = "set `sync_interval: always`, or ask for durability `relaxed`"
        raise Corrupt("nats-server", f"it acknowledges before fsync; {fix}")
    return Durability(wanted, checked=True)


def _has_sync_always(monitor: str) -> bool:
    try:
        with urllib.request.urlopen(f"{monitor}/varz", timeout=5) as answer:  # noqa: S310 - an operator's own setting
            facts: JsonValue = json.load(answer)
    except OSError as error:
        raise Unavailable("nats-server monitoring", str(error)) from error
    for step in ("jetstream", "config", "sync_always"):
        facts = facts.get(step) if isinstance(facts, dict) else None
    return facts is True
