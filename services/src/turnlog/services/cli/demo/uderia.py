"""The demo of the agent platform: a conversation, then plans and tools, each part measured.

The phase `operate` does not see the turns of `ideate`; only the texts that the caller carries over
link them. The tools are those of an MCP server in its own process.
"""

from __future__ import annotations

from typing import Final

from turnlog.events.model.tool_events import ToolReturned
from turnlog.services.api.turn_payloads import CommandResult
from turnlog.services.cli.client.event_reads import EventQuery, read_events
from turnlog.services.cli.client.prompt_reads import fetch_prompt
from turnlog.services.cli.client.service_connection import send_client_command
from turnlog.services.cli.client.service_reader import QueryParameters, ServiceReader
from turnlog.services.cli.conversation.session_conversation import (
    SessionConversation,
    open_session,
)
from turnlog.services.cli.demo.demo_stage import DemoStage
from turnlog.services.cli.views.prompt_view import render_prompt
from turnlog.services.cli.views.theme import FAMILY_COLOURS
from turnlog.services.cli.views.token_view import render_growth

SCRIPTED_MODEL: Final = "scripted/uderia"


FIRST_TEXT: Final = "Why might our ferries run late?"


PHASE_MOVES: Final = {
    "focus": "The suspects are the wind, too few hands, and the one berth.",
    "operate": "Look at the wind of yesterday first.",
}
"""Phase to the text carried over to it."""


QUESTION: Final = "How many sailings were late yesterday, and was it the wind?"


FOLLOW_UP_QUESTION: Final = "And which ship was worst?"


PLAN_CALL: Final = "2.1"
"""The call that plans the first turn with tools."""


async def play_scenario(stage: DemoStage, model: str) -> tuple[str, tuple[str, ...]]:
    """Play the demo; return its session and the commands to suggest."""
    session = (await open_session(stage.client, "uderia", {})).session
    conversation = SessionConversation(stage.client, session)
    await stage.begin_scene("Thinking aloud", f"session {session} · {model}")
    await stage.play_turn(conversation, FIRST_TEXT)
    await stage.begin_scene("Going to work", "phase by phase; only what is said goes along")
    for phase, carried in PHASE_MOVES.items():
        await stage.print_typed_line(phase, FAMILY_COLOURS["phase"], carried)
        path, move = f"/v1/sessions/{session}/phase", {"to": phase, "carry": carried}
        await send_client_command(stage.client, "POST", path, move, CommandResult)
    stage.console.print()
    await stage.play_turn(conversation, QUESTION)
    stage.console.print()
    await stage.play_turn(conversation, FOLLOW_UP_QUESTION)
    last = await stage.show_events(session)
    reader = ServiceReader(stage.client)
    await stage.begin_scene(
        "What the plan was made from", "twenty tools, and nothing of the first phase"
    )
    stage.console.print(render_prompt(await fetch_prompt(reader, session, PLAN_CALL)))
    await stage.begin_scene("What each contributor cost", "call by call, as `turnlog growth`")
    parameters: QueryParameters = {"session": session, "group_by": "kind", "min_sequence": last}
    growth = await reader.fetch_growth(parameters)
    stage.console.print(render_growth(growth, "kind"))
    await stage.show_verification(session)
    return session, await _build_next_commands(stage, session)


async def _build_next_commands(stage: DemoStage, session: str) -> tuple[str, ...]:
    http, turnlog = stage.location.http, stage.location.turnlog_command
    events = [
        each.event async for each in read_events(ServiceReader(stage.client), EventQuery(session))
    ]
    results = [each for each in events if isinstance(each, ToolReturned) and each.result]
    longest = max(results, key=lambda each: each.characters, default=None)
    return (
        *(
            (f"{turnlog} tool {session} {longest.call} {longest.id} --url {http}",)
            if longest
            else ()
        ),
        f"{turnlog} why {session} 2 --url {http}",
    )
