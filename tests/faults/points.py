"""The points at which processes die, as data: the role and the point.

The points themselves are implemented in `crash/sitecustomize.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.faults.site import Role


@dataclass(frozen=True, slots=True)
class Crash:
    """The role that dies and the points, which are set one after another."""

    role: Role
    points: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((self.role, *self.points))


def _of_a_worker(*events: str) -> Iterator[Crash]:
    for event in events:
        yield Crash("worker", (f"before-append:{event}",))
        yield Crash("worker", (f"after-append:{event}",))


ERRANDS = tuple(
    _of_a_worker(
        *("tool-started", "plan-made", "tool-called", "tool-returned", "tools-snapshotted"),
        *("context-assembled", "turn-completed"),
    )
)
"""Points that a turn of several calls passes, most of them more than once."""
POINTS = (
    Crash("gateway", ("before-append:session-opened",)),
    Crash("gateway", ("after-append:session-opened",)),
    Crash("gateway", ("before-append:turn-submitted",)),
    Crash("gateway", ("after-append:turn-submitted",)),
    Crash("worker", ("before-append:attempt-started",)),
    Crash("worker", ("after-append:attempt-started",)),
    Crash("worker", ("before-blob",)),
    Crash("worker", ("before-append:prompts-snapshotted",)),
    Crash("worker", ("after-append:prompts-snapshotted",)),
    Crash("worker", ("before-append:context-assembled",)),
    Crash("worker", ("after-append:context-assembled",)),
    Crash("worker", ("before-token:1",)),
    Crash("worker", ("after-token:3",)),
    Crash("worker", ("before-close",)),
    Crash("worker", ("after-close",)),
    Crash("worker", ("before-append:turn-completed",)),
    Crash("worker", ("after-append:turn-completed",)),
    Crash("worker", ("before-ack",)),
    Crash("worker", ("after-ack",)),
    Crash("worker", ("after-token:3", "after-append:attempt-started")),
    Crash("worker", ("after-close", "before-append:turn-completed")),
    Crash("projector", ("before-commit",)),
    Crash("projector", ("after-commit",)),
)
