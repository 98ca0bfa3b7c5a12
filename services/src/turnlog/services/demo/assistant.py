"""The demo of a plain conversation: three turns, their events, the last prompt and verification."""

from __future__ import annotations

from typing import Final

from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.screens.prompt import prompt_screen
from turnlog.services.cli.talk.conversation import Conversation, opened
from turnlog.services.demo.stage import Stage

SCRIPT: Final = "scripted/demo"
TURNS: Final = (
    "Hello! Who am I talking to?",
    "What does the log hold of us?",
    "And how can that be proven?",
)


async def perform(stage: Stage, model: str) -> tuple[str, tuple[str, ...]]:
    """Play the demo; return its session and the commands to suggest."""
    session = (await opened(stage.client, "assistant", {})).session
    await stage.scene("A conversation", f"session {session} · {model}")
    conversation = Conversation(stage.client, session)
    for place, text in enumerate(TURNS):
        stage.console.print("\n" if place else "", end="")
        await stage.turn(conversation, text)
    await stage.events(session)
    reader = Reader(stage.client)
    last = (await reader.calls(session)).calls[-1]
    await stage.scene("What the model was sent", "each layer, and where it came from")
    stage.console.print(prompt_screen(await reader.prompt(session, last.call)))
    await stage.proof(session)
    return session, _next(stage, session)


def _next(stage: Stage, session: str) -> tuple[str, ...]:
    http, turnlog = stage.where.http, stage.where.turnlog
    turn = """-H 'Content-Type: application/json' -d '{"text": "What do you see of us?"}'"""
    stream = "-H 'Accept: text/event-stream'"
    return (
        f"curl -N {http}/v1/sessions/{session}/turns {stream} \\\n      {turn}",
        f"{turnlog} chat {session} --url {http}",
        f"{turnlog} prompt {session} 2.1 --url {http}",
    )
