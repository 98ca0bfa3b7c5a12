"""The demo of the game master: three turns in a story, the last one over its token budget.

The demo imports a segment library first and edits a segment at the end; recorded prompts still read
back as they were sent. A player's long speech shows the trim steps of the ladder.
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue
from rich.table import Table

from turnlog.events.model.manifest import Manifest
from turnlog.services.api.segment_payloads import SegmentImportResult
from turnlog.services.api.turn_payloads import SubmittedTurn
from turnlog.services.cli.client.service_connection import send_client_command
from turnlog.services.cli.client.service_reader import ServiceReader
from turnlog.services.cli.conversation.session_conversation import (
    SessionConversation,
    open_session,
)
from turnlog.services.cli.demo.demo_stage import DemoStage
from turnlog.services.cli.views.prompt_view import render_prompt
from turnlog.services.cli.views.session_view import USER_COLOUR
from turnlog.services.cli.views.theme import MUTED

SCRIPTED_MODEL: Final = "scripted/game-master"


SESSION_ATTRIBUTES: Final[dict[str, JsonValue]] = {
    "entry_point": "ep.lighthouse",
    "world": "world.shoals",
    "ruleset": "ruleset.plain",
}


KEEPER_NPC: Final = "npc.mara"


SEGMENTS: Final[tuple[tuple[str, str | None, str, dict[str, JsonValue]], ...]] = (
    ("core", None, "You tell a story with one player. Speak to them as `you`.", {}),
    ("core", None, "Never decide what the player does, thinks or feels.", {}),
    ("ruleset", "ruleset.plain", "What is likely happens. What is not needs a good plan.", {}),
    ("world", "world.shoals", "The shoals move in the night; pilots grow old or rich.", {}),
    ("entry", "ep.lighthouse", "A lighthouse stands on the last rock. Its light is out.", {}),
    ("entry_start", "ep.lighthouse", "Begin with the sound of the sea.", {}),
    ("npc", KEEPER_NPC, "Mara keeps the light. She is tired and polite.", {"priority": "high"}),
    ("npc", KEEPER_NPC, "She was paid to leave it dark.", {"tier": 1}),
    ("npc", KEEPER_NPC, "Her brother is on the ship that must not be seen.", {"tier": 2}),
    ("npc", KEEPER_NPC, "Mara looks at the sea.", {"type": "npc_cue"}),
)


LONG_SPEECH: Final = (
    "I tell her what I saw from the boat. The buoys are gone and the bell is tied up. "
    "Whoever did that knows the channel. I think she knows them. "
)


async def play_scenario(stage: DemoStage, model: str) -> tuple[str, tuple[str, ...]]:
    """Play the demo; return its session and the commands to suggest."""
    rows: JsonValue = [_build_segment_row(*segment) for segment in SEGMENTS]
    imported = await send_client_command(
        stage.client, "POST", "/v1/segments/import", {"segments": rows}, SegmentImportResult
    )
    session = (await open_session(stage.client, "game-master", SESSION_ATTRIBUTES)).session
    await stage.begin_scene("A story", f"session {session} · {imported.rows} segments · {model}")
    await _play_turn(stage, session, "I knock at the lighthouse door.", tier=0)
    await _play_turn(stage, session, "I ask her why the light is dark.", tier=1)
    await _play_turn(stage, session, LONG_SPEECH * 8, tier=2, token_budget=225)
    await stage.show_events(session)
    reader = ServiceReader(stage.client)
    last = await reader.fetch_prompt(session, "3.1")
    await stage.begin_scene("What the model was sent", "ten delimited layers, within 225 tokens")
    stage.console.print(render_prompt(last))
    await stage.begin_scene(
        "What was cut to fit", "each step of the ladder until it changes nothing"
    )
    stage.console.print(_render_trim_steps(last.manifest))
    await _edit_segment(stage, imported)
    await stage.show_verification(session)
    return session, _build_next_commands(stage, session)


def _build_segment_row(
    scope: str, ref: str | None, content: str, more: dict[str, JsonValue]
) -> JsonValue:
    return {"scope": scope, "content": content, **({"ref": ref} if ref else {}), **more}


async def _play_turn(
    stage: DemoStage, session: str, text: str, tier: int, token_budget: int | None = None
) -> None:
    """Submit a turn with the application's game state as inputs, and show its reply."""
    inputs: dict[str, JsonValue] = {
        "game_state": "Night, ebb tide. The player is alone.",
        "player": "A pilot with a bad knee.",
        "npcs": [{"npc": KEEPER_NPC, "tier": tier}],
    }
    if token_budget:
        inputs["token_budget"] = token_budget
    stage.console.print()
    await stage.print_typed_line(
        "you", USER_COLOUR, text if len(text) < len(LONG_SPEECH) * 2 else f"{LONG_SPEECH}(...)"
    )
    turn = await send_client_command(
        stage.client,
        "POST",
        f"/v1/sessions/{session}/turns",
        {"text": text, "inputs": inputs},
        SubmittedTurn,
    )
    await stage.show_reply(SessionConversation(stage.client, session), turn)


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
    change = {"content": "You tell a story with one player. Be brief."}
    answer = await stage.client.patch(f"/v1/segments/{imported.added[0]}", json=change)
    answer.raise_for_status()
    stage.console.print(f"segment {imported.added[0]}, version {answer.json()['version']}")


def _build_next_commands(stage: DemoStage, session: str) -> tuple[str, ...]:
    http, turnlog = stage.location.http, stage.location.turnlog_command
    return (
        f"curl {http}/v1/sessions/{session}/calls/3.1/assembly",
        f"{turnlog} segments list --scope npc --url {http}",
        f"{turnlog} prompt {session} 1.1 --url {http}",
    )
