"""What an acknowledgement guarantees, read from the servers where that is possible.

An acknowledged event must survive a power failure: by fsync before the acknowledgement, or by
copies on several servers that fsync. A start on a server known to give less is refused. A server
that does not answer holds nobody up; it is asked again, and until each has confirmed what is
promised every report of the level says that it was not checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from turnlog.events.errors import Refused, Unavailable
from turnlog.services.platform.durability_level import DurabilityLevel
from turnlog.services.platform.nats_monitor import ServerFacts, fetch_servers
from turnlog.services.platform.process_health import RecentCheck

RECHECK_SECONDS: Final = 10.0
"""Seconds for which the answers of the servers are reused."""

SYNC_FIX: Final = (
    "write `sync_interval: always` into the `jetstream` block of its configuration,"
    " or set TURNLOG_DURABILITY=relaxed"
)

_log = structlog.get_logger("turnlog.process")


@dataclass(eq=False)
class Durability:
    """The level that is promised, and whether the servers confirm it."""

    level: DurabilityLevel
    monitors: Sequence[str] = ()
    """The monitoring addresses of all servers."""
    checked: bool = False
    """Whether every server has confirmed the level when it was last asked."""
    _recent: RecentCheck = field(init=False)
    _reported: str | None = None

    def __post_init__(self) -> None:
        self._recent = RecentCheck(
            component="durability", check=self._query_servers, seconds=RECHECK_SECONDS
        )

    async def require_promised(self) -> None:
        """Raise `Refused` if a server guarantees too little, `Unavailable` if one does not answer.

        The servers are queried at most every few seconds.
        """
        await self._recent.require_healthy()

    async def refuse_less(self) -> None:
        """Query the servers; raise `Refused` if one guarantees too little, log missing answers."""
        try:
            await self.require_promised()
        except Unavailable as silent:
            _log.warning("durability-check-failed", detail=silent.detail)

    async def _query_servers(self) -> None:
        self.checked = False
        answers = await fetch_servers(self.monitors)
        servers = [each for each in answers.values() if isinstance(each, ServerFacts)]
        unsynced = [each.name for each in servers if each.syncs_before_ack is False]
        if unsynced and self.level != "relaxed":
            raise self._refuse_unsynced(", ".join(unsynced))
        silent = [each.detail for each in answers.values() if isinstance(each, Unavailable)]
        idle = [each.name for each in servers if each.syncs_before_ack is None]
        not_asked = [*silent, *(f"the JetStream of {name} does not run" for name in idle)]
        if not_asked:
            raise Unavailable("durability", "; ".join(not_asked))
        self.checked = bool(servers)

    def _refuse_unsynced(self, names: str) -> Refused:
        if names != self._reported:
            self._reported = names
            _log.error("durability-lost", servers=names)
        return Refused(
            "bad-setting",
            f"nats-server {names} acknowledges before fsync",
            field="sync_interval",
            fix=SYNC_FIX,
        )


async def check_durability(
    required: DurabilityLevel, replicas: int, monitors: Sequence[str]
) -> Durability:
    """Return the level in force; raise `Refused` when it is less than required.

    A server that does not answer is no reason to refuse.
    """
    if required == "replicated" and replicas < 3:  # noqa: PLR2004 - the fewest that outlive one loss
        raise Refused(
            "bad-setting",
            f"`replicated` needs 3 replicas, there are {replicas}",
            field="TURNLOG_REPLICAS",
            fix="set it to 3, and give NATS three servers",
        )
    durability = Durability(required, monitors)
    await durability.refuse_less()
    return durability
