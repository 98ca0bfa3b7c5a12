"""The demo runner: it starts all services in this process, plays one scenario and shows the result.

Services run for real, in a data folder of their own, and everything shown is read back over HTTP.
Only the replies come from a script, unless a model is configured.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, assert_never

from turnlog.services.demo import araquem, assistant, game_master, trickster, uderia
from turnlog.services.demo.stage import Stage

Name = Literal["trickster", "assistant", "araquem", "game-master", "uderia"]


@dataclass(frozen=True, slots=True)
class Play:
    """A demo scenario."""

    script: str
    """The scripted model that replies where no other model is configured."""
    perform: Callable[[Stage, str], Awaitable[tuple[str, tuple[str, ...]]]]
    """Plays the scenario with a model; returns its session and the commands to suggest."""


def play_named(name: Name) -> Play:
    match name:
        case "trickster":
            return Play(trickster.SCRIPT, trickster.perform)
        case "assistant":
            return Play(assistant.SCRIPT, assistant.perform)
        case "araquem":
            return Play(araquem.SCRIPT, araquem.perform)
        case "game-master":
            return Play(game_master.SCRIPT, game_master.perform)
        case "uderia":
            return Play(uderia.SCRIPT, uderia.perform)
        case _ as never:
            assert_never(never)
