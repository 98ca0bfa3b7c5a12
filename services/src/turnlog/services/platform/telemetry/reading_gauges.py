"""Gauges of what a process reads from time to time, such as the length of a queue.

A figure that could not be read for a while has no value: the last one would hide that nobody knows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation, get_meter

STALE_SECONDS: Final = 30.0
"""Seconds after which a reading has no value any more."""


class ReadingGauge:
    """One figure, or one for each value of a label, as it was last read."""

    def __init__(
        self,
        name: str,
        label: str | None,
        *,
        unit: str,
        description: str,
        meter: Meter | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the gauge; by default on the meter of what the process exports.

        Without a label there is one figure, under any key.
        """
        self._label, self._monotonic = label, monotonic
        self._reading: tuple[float, Mapping[str, float]] | None = None
        """When it was read, and what; replaced as a whole, for the thread that collects."""
        (meter or get_meter("turnlog")).create_observable_gauge(
            name, [self._observe], unit=unit, description=description
        )

    def record_reading(self, figures: Mapping[str, float]) -> None:
        """Replace all figures, by the value of the label."""
        self._reading = (self._monotonic(), dict(figures))

    def _observe(self, _: CallbackOptions) -> Iterable[Observation]:
        reading = self._reading
        if reading is None or self._monotonic() - reading[0] > STALE_SECONDS:
            return
        for value, figure in reading[1].items():
            yield Observation(figure, {self._label: value} if self._label else {})
