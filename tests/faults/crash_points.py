"""The points at which processes die, as data: the role and the point.

The points themselves are implemented in `crash/sitecustomize.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.faults.attacked_service import AttackedRole


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """The role that dies and the points, which are set one after another."""

    role: AttackedRole
    points: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((self.role, *self.points))


def _list_worker_points(*events: str) -> Iterator[CrashPoint]:
    for event in events:
        yield CrashPoint("worker", (f"before-append:{event}",))
        yield CrashPoint("worker", (f"after-append:{event}",))


AGENT_CRASH_POINTS = tuple(
    _list_worker_points(
        *("tool-started", "plan-made", "tool-called", "tool-returned", "tools-snapshotted"),
        *("context-assembled", "turn-completed"),
    )
)
"""Points that a turn of several calls passes, most of them more than once."""

MEDIA_CRASH_POINTS = (
    *(CrashPoint("gateway", (point,)) for point in ("before-media", "before-blob", "after-media")),
    CrashPoint("gateway", ("before-append:turn-submitted",)),
    CrashPoint("gateway", ("after-append:turn-submitted",)),
    CrashPoint("worker", ("before-media",)),
    CrashPoint("worker", ("after-media",)),
    *_list_worker_points(
        *("attempt-started", "tools-snapshotted", "context-assembled", "call-completed"),
        *("tool-started", "tool-returned", "turn-completed"),
    ),
    CrashPoint("worker", ("before-token:3",)),
    CrashPoint("worker", ("after-close",)),
)
"""Points that a turn with a picture passes, whose tool returns one."""

CRASH_POINTS = (
    CrashPoint("gateway", ("before-append:session-opened",)),
    CrashPoint("gateway", ("after-append:session-opened",)),
    CrashPoint("gateway", ("before-append:turn-submitted",)),
    CrashPoint("gateway", ("after-append:turn-submitted",)),
    CrashPoint("worker", ("before-append:attempt-started",)),
    CrashPoint("worker", ("after-append:attempt-started",)),
    CrashPoint("worker", ("before-blob",)),
    CrashPoint("worker", ("before-append:prompts-snapshotted",)),
    CrashPoint("worker", ("after-append:prompts-snapshotted",)),
    CrashPoint("worker", ("before-append:context-assembled",)),
    CrashPoint("worker", ("after-append:context-assembled",)),
    CrashPoint("worker", ("before-token:1",)),
    CrashPoint("worker", ("after-token:3",)),
    CrashPoint("worker", ("before-close",)),
    CrashPoint("worker", ("after-close",)),
    CrashPoint("worker", ("before-append:turn-completed",)),
    CrashPoint("worker", ("after-append:turn-completed",)),
    CrashPoint("worker", ("before-ack",)),
    CrashPoint("worker", ("after-ack",)),
    CrashPoint("worker", ("after-token:3", "after-append:attempt-started")),
    CrashPoint("worker", ("after-close", "before-append:turn-completed")),
    CrashPoint("projector", ("before-commit",)),
    CrashPoint("projector", ("after-commit",)),
)
