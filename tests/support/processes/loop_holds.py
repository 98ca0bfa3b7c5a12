"""Reads from the logs of processes whether anything held their event loops for long."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from turnlog.services.platform.telemetry.loop_probe import LONG_HOLD

FAILING_HOLD: Final = 2 * LONG_HOLD
"""Seconds from which on a hold fails a test.

Processes warn from `LONG_HOLD` on. How many seconds of a processor a piece of work takes depends on
the machine, and a busy one takes half as much again for the same work; what is unbounded, or asked
of the loop that belongs in a thread, grows well past this. The promise itself is measured by
`tests.faults.loop_holds` over hostile input, with FAULTS=all.
"""

_WARNED_SECONDS: Final = re.compile(r"\bseconds\W+([\d.]+)")
"""In a line of the console, or in one of JSON."""


def assert_loop_free(*logs: Path) -> None:
    """Fail if the probe of a process warned of a long hold; the warning names what ran."""
    found = [
        f"{log.name}: {line}"
        for log in logs
        for line in log.read_text(errors="replace").splitlines()
        if "event-loop-blocked" in line
        and not ((warned := _WARNED_SECONDS.search(line)) and float(warned[1]) < FAILING_HOLD)
    ]
    assert not found, "an event loop was held:\n" + "\n".join(found)
