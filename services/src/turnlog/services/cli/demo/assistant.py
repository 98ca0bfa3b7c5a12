"""The demo of a plain conversation: three turns, their events, the last prompt and verification."""

from __future__ import annotations

from typing import Final

from turnlog.client import operations
from turnlog.services.cli.client.prompt_reads import fetch_prompt, list_calls
from turnlog.services.cli.conversation.session_conversation import SessionConversation
from turnlog.services.cli.demo.demo_stage import DemoStage
from turnlog.services.cli.views.prompt_view import render_prompt

SCRIPTED_MODEL: Final = "scripted/demo"


TURNS: Final = (
    "Hello! Who am I talking to?",
    "What does the log hold of us?",
    "And how can that be proven?",
)


async def play_scenario(stage: DemoStage, model: str) -> tuple[str, tuple[str, ...]]:
    """Play the demo; return its session and the commands to suggest."""
    session = (await stage.service.send(operations.open_session("assistant"))).session
    await stage.begin_scene("A conversation", f"session {session} · {model}")
    conversation = SessionConversation(stage.service, session)
    for place, text in enumerate(TURNS):
        stage.console.print("\n" if place else "", end="")
        await stage.play_turn(conversation, text)
    await stage.show_events(session)
    last = (await stage.service.send(list_calls(session))).calls[-1]
    await stage.begin_scene("What the model was sent", "each layer, and where it came from")
    stage.console.print(render_prompt(await fetch_prompt(stage.service, session, last.call)))
    await stage.show_verification(session)
    return session, _build_next_commands(stage, session)


def _build_next_commands(stage: DemoStage, session: str) -> tuple[str, ...]:
    http, turnlog = stage.location.http, stage.location.turnlog_command
    turn = """-H 'Content-Type: application/json' -d '{"text": "What do you see of us?"}'"""
    stream = "-H 'Accept: text/event-stream'"
    return (
        f"curl -N {http}/v1/sessions/{session}/turns {stream} \\\n      {turn}",
        f"{turnlog} chat {session} --url {http}",
        f"{turnlog} prompt {session} 2.1 --url {http}",
    )
