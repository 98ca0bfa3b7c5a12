"""The demo of the agent platform: a conversation, then plans and tools, each part measured.

The phase `operate` does not see the turns of `ideate`; only the texts that the caller carries over
link them. The tools are those of an MCP server in its own process.
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from turnlog.events.tool import ToolReturned
from turnlog.services.cli.reader.reader import Query, Reader, Wanted
from turnlog.services.cli.screens.growth import growth_screen
from turnlog.services.cli.screens.palette import FAMILIES
from turnlog.services.cli.screens.prompt import prompt_screen
from turnlog.services.cli.talk.conversation import Conversation, opened, posted
from turnlog.services.demo.stage import Stage

SCRIPT: Final = "scripted/uderia"
THOUGHT: Final = "Why might our ferries run late?"
MOVES: Final = {
    "focus": "The suspects are the wind, too few hands, and the one berth.",
    "operate": "Look at the wind of yesterday first.",
}
"""Phase to the text carried over to it."""
QUESTION: Final = "How many sailings were late yesterday, and was it the wind?"
AFTER: Final = "And which ship was worst?"
PLANNED: Final = "2.1"
"""The call that plans the first turn with tools."""


async def perform(stage: Stage, model: str) -> tuple[str, tuple[str, ...]]:
    """Play the demo; return its session and the commands to suggest."""
    session = (await opened(stage.client, "uderia", {})).session
    conversation = Conversation(stage.client, session)
    await stage.scene("Thinking aloud", f"session {session} · {model}")
    await stage.turn(conversation, THOUGHT)
    await stage.scene("Going to work", "phase by phase; only what is said goes along")
    for phase, carried in MOVES.items():
        await stage.type(phase, FAMILIES["phase"], carried)
        move: JsonValue = {"to": phase, "carry": carried}
        await posted(stage.client, f"/v1/sessions/{session}/phase", move)
    stage.console.print()
    await stage.turn(conversation, QUESTION)
    stage.console.print()
    await stage.turn(conversation, AFTER)
    last = await stage.events(session)
    reader = Reader(stage.client)
    await stage.scene("What the plan was made from", "twenty tools, and nothing of the first phase")
    stage.console.print(prompt_screen(await reader.prompt(session, PLANNED)))
    await stage.scene("What each contributor cost", "call by call, as `turnlog growth`")
    asked: Query = {"session": session, "group_by": "kind", "min_sequence": last}
    growth = await reader.growth(asked)
    stage.console.print(growth_screen(growth, "kind"))
    await stage.proof(session)
    return session, await _next(stage, session)


async def _next(stage: Stage, session: str) -> tuple[str, ...]:
    http, turnlog = stage.where.http, stage.where.turnlog
    events = [each.event async for each in Reader(stage.client).events(Wanted(session))]
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
