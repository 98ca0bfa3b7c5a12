"""The demo runner: it starts all services in this process, plays one scenario and shows the result.

Services run for real, in a data folder of their own, and everything shown is read back over HTTP.
Only the replies come from a script, unless a model is configured.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, assert_never

from turnlog.services.demo import araquem, assistant, game_master, trickster, uderia
from turnlog.services.demo.stage import DemoStage

DemoName = Literal["trickster", "assistant", "araquem", "game-master", "uderia"]


@dataclass(frozen=True, slots=True)
class DemoScenario:
    """A demo scenario."""

    scripted_model: str
    """The scripted model that replies where no other model is configured."""
    play_scenario: Callable[[DemoStage, str], Awaitable[tuple[str, tuple[str, ...]]]]
    """Plays the scenario with a model; returns its session and the commands to suggest."""


def get_scenario(name: DemoName) -> DemoScenario:
    match name:
        case "trickster":
            return DemoScenario(trickster.SCRIPTED_MODEL, trickster.play_scenario)
        case "assistant":
            return DemoScenario(assistant.SCRIPTED_MODEL, assistant.play_scenario)
        case "araquem":
            return DemoScenario(araquem.SCRIPTED_MODEL, araquem.play_scenario)
        case "game-master":
            return DemoScenario(game_master.SCRIPTED_MODEL, game_master.play_scenario)
        case "uderia":
            return DemoScenario(uderia.SCRIPTED_MODEL, uderia.play_scenario)
        case _ as never:
            assert_never(never)
