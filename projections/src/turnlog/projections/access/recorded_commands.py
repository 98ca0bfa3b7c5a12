"""The last commands on a history that all tenants share, by which a repeated one is recognised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent

MAX_COMMANDS: Final = 1_000
"""The last commands whose repetition is recognised."""

RecordT = TypeVar("RecordT")


def record_command(
    commands: dict[str, RecordT], recorded: RecordedEvent, create: Callable[[Digest], RecordT]
) -> None:
    """Add the command of an event, with what `create` makes of its body's digest, if it has one."""
    key, digest = recorded.envelope.commandkey, recorded.envelope.commandhash
    if key is None or digest is None:
        return
    commands[key] = create(digest)
    while len(commands) > MAX_COMMANDS:
        del commands[next(iter(commands))]
