"""The demos there are, by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, assert_never

from turnlog.services.demo import araquem, assistant, game_master, trickster, uderia
from turnlog.services.demo.stage import Stage

Name = Literal["trickster", "assistant", "araquem", "game-master", "uderia"]


@dataclass(frozen=True, slots=True)
class Play:
    """One demo."""

    script: str
    """The model that says its words where there is no other."""
    perform: Callable[[Stage, str], Awaitable[tuple[str, tuple[str, ...]]]]
    """Plays it with a model; gives its session, and three commands to go on with."""


def play_named(name: Name) -> Play:
    """Give a demo."""
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
