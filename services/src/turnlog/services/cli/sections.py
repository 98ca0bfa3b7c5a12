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
class CommandEntry:
    """One command; a name of two words puts it into a command group."""

    name: str
    function: Callable[..., None]


@dataclass(frozen=True, slots=True)
class CommandSection:
    """A heading of `--help` with its commands."""

    title: str
    commands: tuple[CommandEntry, ...]


COMMAND_GROUPS: Final = {
    "config": "Settings and where they come from.",
    "blueprint": "Blueprints: those there are, what is wrong with one, and who runs by which.",
    "segments": "Segments: stored texts that stand in prompts.",
}
"""Help texts of the command groups, by the first word of the command name."""
COMMAND_SECTIONS: Final = (
    CommandSection(
        "Start",
        (
            CommandEntry("demo", starting.run_demo),
            CommandEntry("up", starting.start_all),
            CommandEntry("run", starting.run_role),
        ),
    ),
    CommandSection(
        "Talk",
        (
            CommandEntry("chat", starting.start_chat),
            CommandEntry("switch", switching.switch_profile),
            CommandEntry("schemas", tools.request_schemas),
            CommandEntry("purge", forgetting.purge_memory),
            CommandEntry("undo", forgetting.undo_summary),
            CommandEntry("fork", forking.fork_session),
        ),
    ),
    CommandSection(
        "Read",
        (
            CommandEntry("sessions", reading.list_sessions),
            CommandEntry("show", reading.show_session),
            CommandEntry("history", reading.show_history),
            CommandEntry("window", reading.show_window),
            CommandEntry("memory", remembering.show_memory),
            CommandEntry("references", remembering.show_references),
            CommandEntry("summaries", forgetting.show_summaries),
            CommandEntry("growth", reading.show_growth),
            CommandEntry("prompt", reading.show_prompt),
            CommandEntry("tool", tools.show_tool_result),
            CommandEntry("why", explaining.explain_turn),
            CommandEntry("diff", explaining.compare_calls),
            CommandEntry("tail", watching.tail_events),
            CommandEntry("replay", watching.replay_session),
        ),
    ),
    CommandSection(
        "Prove",
        (
            CommandEntry("verify", proving.verify_record),
            CommandEntry("checkpoint", proving.create_checkpoint),
            CommandEntry("export", exporting.export_sessions),
            CommandEntry("withheld", explaining.show_withheld_text),
            CommandEntry("what-if", supposing.compare_what_if),
            CommandEntry("rebuild", watching.rebuild_read_models),
        ),
    ),
    CommandSection(
        "Look after",
        (
            CommandEntry("doctor", keeping.run_doctor),
            CommandEntry("config show", keeping.show_config),
            CommandEntry("blueprint new", keeping.create_blueprint),
            CommandEntry("blueprint check", keeping.check_blueprint),
            CommandEntry("blueprint list", keeping.list_blueprints),
            CommandEntry("blueprint pinned", supposing.show_pins),
            CommandEntry("blueprint move", supposing.move_blueprint),
            CommandEntry("segments list", segments.list_segments),
            CommandEntry("segments show", segments.show_segment),
            CommandEntry("segments add", segments.add_segment),
            CommandEntry("segments edit", segments.edit_segment),
            CommandEntry("segments activate", segments.mark_segment_active),
            CommandEntry("segments deactivate", segments.mark_segment_inactive),
            CommandEntry("segments import", segments.import_segments),
        ),
    ),
)
