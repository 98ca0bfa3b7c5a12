"""What becomes of the deliveries of a process, as metrics without the name of a webhook.

The name, the session and the reason are in the lines of the log and in `turnlog webhooks`.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from opentelemetry.metrics import Meter, get_meter

from turnlog.services.platform.telemetry.reading_gauges import ReadingGauge

DELIVERIES_METRIC: Final = "turnlog.webhook.deliveries"

LAG_METRIC: Final = "turnlog.webhook.lag"

SESSIONS_METRIC: Final = "turnlog.webhook.sessions"

DeliveryOutcome = Literal["delivered", "failed", "given_up", "stopped"]
"""An event was accepted, a try of one failed, a session was given up, or a whole webhook ended."""

_OUTCOME: Final = "turnlog.webhook.outcome"


class DeliveryMetrics:
    """Counts deliveries, and has what is not delivered yet."""

    def __init__(self, meter: Meter | None = None) -> None:
        """Create the instruments; by default on the meter of what the process exports.

        Each outcome is shown before it happens, so that the first one is an increase from 0.
        """
        used = meter or get_meter("turnlog")
        self._places: dict[str, tuple[float, int, int]] = {}
        self._deliveries = used.create_counter(
            DELIVERIES_METRIC, unit="{delivery}", description="Deliveries to webhooks by outcome"
        )
        for outcome in get_args(DeliveryOutcome):
            self._deliveries.add(0, {_OUTCOME: outcome})
        self._lag = ReadingGauge(
            LAG_METRIC,
            None,
            unit="s",
            description="Age of what webhooks were not delivered yet",
            meter=used,
        )
        self._sessions = ReadingGauge(
            SESSIONS_METRIC,
            "turnlog.webhook.place",
            unit="{session}",
            description="Sessions with deliveries that failed",
            meter=used,
        )

    def record_outcome(self, outcome: DeliveryOutcome) -> None:
        """Count what became of a delivery."""
        self._deliveries.add(1, {_OUTCOME: outcome})

    def record_places(self, tenant: str, *, oldest: float, behind: int, given_up: int) -> None:
        """Replace a tenant's seconds since its oldest undelivered event, and its sessions.

        All tenants of the process are one figure.
        """
        self._places[tenant] = (oldest, behind, given_up)
        ages, behinds, ends = zip(*self._places.values(), strict=True)
        self._lag.record_reading({"": max(ages)})
        self._sessions.record_reading({"behind": sum(behinds), "given_up": sum(ends)})
