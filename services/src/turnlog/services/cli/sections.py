"""All commands in the order and under the headings of `--help`, and its text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from turnlog.services.cli.commands import (
    explaining,
    exporting,
    forgetting,
    forking,
    keeping,
    proving,
    reading,
    remembering,
    segments,
    starting,
    supposing,
    switching,
    tools,
    watching,
)


@dataclass(frozen=True, slots=True)
class Command:
    """One command; a name of two words puts it into a command group."""

    name: str
    does: Callable[..., None]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of `--help` with its commands."""

    title: str
    commands: tuple[Command, ...]


GROUPS: Final = {
    "config": "Settings and where they come from.",
    "blueprint": "Blueprints: those there are, what is wrong with one, and who runs by which.",
    "segments": "Segments: stored texts that stand in prompts.",
}
"""Help texts of the command groups, by the first word of the command name."""
SECTIONS: Final = (
    Section(
        "Start",
        (
            Command("demo", starting.demo),
            Command("up", starting.up),
            Command("run", starting.run),
        ),
    ),
    Section(
        "Talk",
        (
            Command("chat", starting.chat),
            Command("switch", switching.switch),
            Command("schemas", tools.schemas),
            Command("purge", forgetting.purge),
            Command("undo", forgetting.undo),
            Command("fork", forking.fork),
        ),
    ),
    Section(
        "Read",
        (
            Command("sessions", reading.sessions),
            Command("show", reading.show),
            Command("history", reading.history),
            Command("window", reading.window),
            Command("memory", remembering.memory),
            Command("references", remembering.references),
            Command("summaries", forgetting.summaries),
            Command("growth", reading.growth),
            Command("prompt", reading.prompt),
            Command("tool", tools.tool),
            Command("why", explaining.why),
            Command("diff", explaining.diff),
            Command("tail", watching.tail),
            Command("replay", watching.replay),
        ),
    ),
    Section(
        "Prove",
        (
            Command("verify", proving.verify),
            Command("checkpoint", proving.checkpoint),
            Command("export", exporting.export),
            Command("withheld", explaining.withheld),
            Command("what-if", supposing.what_if),
            Command("rebuild", watching.rebuild),
        ),
    ),
    Section(
        "Look after",
        (
            Command("doctor", keeping.doctor),
            Command("config show", keeping.config_show),
            Command("blueprint new", keeping.blueprint_new),
            Command("blueprint check", keeping.blueprint_check),
            Command("blueprint list", keeping.blueprint_list),
            Command("blueprint pinned", supposing.blueprint_pinned),
            Command("blueprint move", supposing.blueprint_move),
            Command("segments list", segments.listing),
            Command("segments show", segments.show),
            Command("segments add", segments.add),
            Command("segments edit", segments.edit),
            Command("segments activate", segments.activate),
            Command("segments deactivate", segments.deactivate),
            Command("segments import", segments.take_in),
        ),
    ),
)
