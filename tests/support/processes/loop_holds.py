"""Reads from the logs of processes whether anything held their event loops for long."""

from __future__ import annotations

from pathlib import Path


def assert_loop_free(*logs: Path) -> None:
    """Fail if the probe of a process warned; the warning names what ran."""
    found = [
        f"{log.name}: {line}"
        for log in logs
        for line in log.read_text(errors="replace").splitlines()
        if "event-loop-blocked" in line
    ]
    assert not found, "an event loop was held:\n" + "\n".join(found)
