"""The demo of the game master: three turns in a story, the last one over its token budget.

The demo imports a segment library first and edits a segment at the end; recorded prompts still read
back as they were sent. A player's long speech shows the trim steps of the ladder.
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue
from rich.table import Table

from turnlog.client import operations
from turnlog.client.operations import build_command
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.events.model.manifest import Manifest
from turnlog.services.api.segment_payloads import SegmentChangeResult, SegmentImportResult
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS
from turnlog.services.cli.client.prompt_reads import fetch_prompt
from turnlog.services.cli.conversation.session_conversation import (
    SessionConversation,
)
from turnlog.services.cli.demo.demo_stage import DemoStage, ProposedCommand
from turnlog.services.cli.segments.segment_actions import (
    build_import_body,
    read_segment_files,
)
from turnlog.services.cli.views.session_view import USER_COLOUR
from turnlog.services.cli.views.theme import MUTED

SCRIPTED_MODEL: Final = "scripted/game-master"


SESSION_ATTRIBUTES: Final[dict[str, JsonValue]] = {
    "entry_point": "ep.lighthouse",
    "world": "world.shoals",
    "ruleset": "ruleset.plain",
}


KEEPER_NPC: Final = "npc.mara"


SEGMENT_FILE: Final = SHIPPED_BLUEPRINTS / "game-master/segments/lighthouse.yaml"


NEW_ROLE: Final = (
    "You are the game master of a story for one player. Be brief, and let people speak for "
    'themselves. Speak to the player as "you", in the language in which the player writes.'
)
"""The new text of the first segment."""


TOKEN_BUDGET: Final = 1_450
"""The budget of the last turn, which its prompt exceeds."""


GAME_STATE: Final = (
    "Night, ebb tide, two hours before it turns. The player's boat is tied to the iron ring. "
    "On the way in the player saw that the buoys of the north channel are gone and that its bell "
    "is tied up. Nobody but Mara has been met so far; somebody is mending a net in the shed."
)


PLAYER: Final = (
    "A pilot of the Guild, forty, with a bad knee and a good memory for water. Owns an oilskin, "
    "a whistle, a knife, and a chart that is three weeks old."
)


LONG_SPEECH: Final = (
    "I tell her what I saw from the boat. The buoys are gone and the bell is tied up. "
    "Whoever did that knows the channel. I think she knows them. "
)


async def play_scenario(stage: DemoStage, model: str) -> tuple[str, tuple[ProposedCommand, ...]]:
    """Play the demo; return its session and the commands to suggest."""
    body = build_import_body(read_segment_files([SEGMENT_FILE]))
    imported = await stage.service.send(
        build_command(api_paths.IMPORT_SEGMENTS, body, SegmentImportResult)
    )
    opened = await stage.service.send(operations.open_session("game-master", SESSION_ATTRIBUTES))
    session = opened.session
    await stage.begin_scene("A story", f"session {session} · {imported.rows} segments · {model}")
    await _play_turn(stage, session, "I knock at the lighthouse door.", tier=0)
    await _play_turn(stage, session, "I ask her why the light is dark.", tier=1)
    await _play_turn(stage, session, LONG_SPEECH * 8, tier=2, token_budget=TOKEN_BUDGET)
    await stage.show_events(session)
    note = f"delimited layers, within {TOKEN_BUDGET:,} tokens"
    await stage.show_prompt(session, "3.1", "What the model was sent", note)
    last = await fetch_prompt(stage.service, session, "3.1")
    await stage.begin_scene(
        "What was cut to fit", "each step of the ladder until it changes nothing"
    )
    stage.console.print(_render_trim_steps(last.manifest))
    await _edit_segment(stage, imported)
    await stage.show_verification(session)
    return session, _build_next_commands(stage, session)


async def _play_turn(
    stage: DemoStage, session: str, text: str, tier: int, token_budget: int | None = None
) -> None:
    inputs: dict[str, JsonValue] = {
        "game_state": GAME_STATE,
        "player": PLAYER,
        "rng": "Random numbers of this turn: 4, 2, 6.",
        "npcs": [{"npc": KEEPER_NPC, "tier": tier}, {"npc": "npc.harl", "tier": 0}],
    }
    if token_budget:
        inputs["token_budget"] = token_budget
    stage.console.print()
    await stage.print_typed_line(
        "you", USER_COLOUR, text if len(text) < len(LONG_SPEECH) * 2 else f"{LONG_SPEECH}(...)"
    )
    turn = await stage.service.send(operations.submit_turn(session, text, inputs=inputs))
    await stage.show_reply(SessionConversation(stage.service, session), turn)


def _render_trim_steps(manifest: Manifest) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=MUTED, pad_edge=False)
    for title in ("limit of", "step", "on", "tokens before", "after"):
        table.add_column(title)
    for step in manifest.steps:
        numbers = (f"{step.before:,}", f"{step.after:,}")
        table.add_row(step.section or "the prompt", step.step, step.on, *numbers)
    return table


async def _edit_segment(stage: DemoStage, imported: SegmentImportResult) -> None:
    """Edit a segment that all three prompts include."""
    if not imported.added:
        return
    await stage.begin_scene(
        "A segment is edited", "the next call is given it; no prompt of before changes"
    )
    change = {"content": NEW_ROLE}
    path = format_path(api_paths.SEGMENT, segment=imported.added[0])
    edited = await stage.service.send(build_command(path, change, SegmentChangeResult, "PATCH"))
    stage.console.print(f"segment {imported.added[0]}, version {edited.version}")


def _build_next_commands(stage: DemoStage, session: str) -> tuple[ProposedCommand, ...]:
    http, turnlog = stage.location.http, stage.location.turnlog_command
    return (
        ProposedCommand(
            "what was cut, as the game's program reads it",
            f"curl {http}/v1/sessions/{session}/calls/3.1/assembly",
        ),
        ProposedCommand(
            "the stored texts of its people",
            f"{turnlog} segments list --scope npc --url {http}",
        ),
        ProposedCommand(
            "the whole prompt before anything was cut",
            f"{turnlog} prompt {session} 1.1 --url {http}",
        ),
    )
