"""The demo of a plain conversation: three turns, their events, the last prompt and verification."""

from __future__ import annotations

from typing import Final

from turnlog.client import operations
from turnlog.services.cli.client.prompt_reads import list_calls
from turnlog.services.cli.conversation.session_conversation import SessionConversation
from turnlog.services.cli.demo.demo_stage import DemoStage, ProposedCommand

SCRIPTED_MODEL: Final = "scripted/demo"


TURNS: Final = (
    "Hello! Who am I talking to?",
    "What does the log hold of us?",
    "And how can that be proven?",
)


async def play_scenario(stage: DemoStage, model: str) -> tuple[str, tuple[ProposedCommand, ...]]:
    """Play the demo; return its session and the commands to suggest."""
    session = (await stage.service.send(operations.open_session("assistant"))).session
    await stage.begin_scene("A conversation", f"session {session} · {model}")
    conversation = SessionConversation(stage.service, session)
    for place, text in enumerate(TURNS):
        stage.console.print("\n" if place else "", end="")
        await stage.play_turn(conversation, text)
    await stage.show_events(session)
    last = (await stage.service.send(list_calls(session))).calls[-1]
    note = "each layer, and where it came from"
    await stage.show_prompt(session, last.call, "What the model was sent", note)
    await stage.show_verification(session)
    return session, _build_next_commands(stage, session)


def _build_next_commands(stage: DemoStage, session: str) -> tuple[ProposedCommand, ...]:
    http, turnlog = stage.location.http, stage.location.turnlog_command
    turn = """-H 'Content-Type: application/json' -d '{"text": "What do you see of us?"}'"""
    stream = "-H 'Accept: text/event-stream'"
    return (
        ProposedCommand(
            "go on over HTTP, and watch the reply being written",
            f"curl -N {http}/v1/sessions/{session}/turns {stream} \\\n      {turn}",
        ),
        ProposedCommand("go on in the terminal", f"{turnlog} chat {session} --url {http}"),
        ProposedCommand(
            "what the model was sent before", f"{turnlog} prompt {session} 2.1 --url {http}"
        ),
    )
