"""What an acknowledgement guarantees, read from the server where that is possible.

An acknowledged event must survive a power failure: by fsync before the acknowledgement, or by
copies on several servers that fsync. A server known to give less is refused. A server without a
monitoring address is trusted, and every report of the level says that it was not checked.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import partial
from typing import Literal, cast

from pydantic import JsonValue

from turnlog.events.errors import Refused, Unavailable
from turnlog.services.platform.concurrency import run_in_thread

DurabilityLevel = Literal["fsync-acked", "replicated", "relaxed"]


@dataclass(frozen=True, slots=True)
class Durability:
    """The level in force, and whether the server itself was asked."""

    level: DurabilityLevel
    checked: bool


async def check_durability(
    required: DurabilityLevel, replicas: int, monitor: str | None
) -> Durability:
    """Return the level in force; raise `Refused` when it is less than required."""
    if required == "relaxed":
        return Durability("relaxed", checked=monitor is not None)
    if required == "replicated" and replicas < 3:  # noqa: PLR2004 - the fewest that outlive one loss
        raise Refused(
            "bad-setting",
            f"`replicated` needs 3 replicas, there are {replicas}",
            field="TURNLOG_REPLICAS",
            fix="set it to 3, and give NATS three servers",
        )
    if monitor is None:
        return Durability(required, checked=False)
    if not await run_in_thread(partial(_has_sync_always, monitor)):
        raise Refused(
            "bad-setting",
            "nats-server acknowledges before fsync",
            field="sync_interval",
            fix="write `sync_interval: always` into the `jetstream` block of its configuration,"
            " or set TURNLOG_DURABILITY=relaxed",
        )
    return Durability(required, checked=True)


def _has_sync_always(monitor: str) -> bool:
    facts = fetch_monitor_page(monitor, "varz")
    for step in ("jetstream", "config", "sync_always"):
        facts = facts.get(step) if isinstance(facts, dict) else None
    return facts is True


def check_store_writable(monitor: str) -> None:
    """Raise `Unavailable` if the server could not write to its disk, or does not say. Blocks."""
    fault = fetch_store_fault(monitor)
    if fault is not None:
        raise Unavailable("log", f"its server is unwell: {fault}")


def fetch_store_fault(monitor: str) -> str | None:
    """Return why the server could not write to its disk, if it could not. Blocks.

    It then answers no append, also when the disk has space again, until it is restarted.
    """
    facts = fetch_monitor_page(monitor, "healthz")
    error = facts.get("error") if isinstance(facts, dict) else None
    return str(error) if error else None


def fetch_monitor_page(monitor: str, page: str) -> JsonValue:
    """Return a page of the server's monitoring address, also one that reports an error. Blocks."""
    try:
        with urllib.request.urlopen(f"{monitor}/{page}", timeout=5) as answer:  # noqa: S310 - an operator's own setting
            return cast("JsonValue", json.load(answer))
    except urllib.error.HTTPError as error:
        return cast("JsonValue", json.loads(error.read()))
    except OSError as error:
        raise Unavailable("nats-server monitoring", str(error)) from error
