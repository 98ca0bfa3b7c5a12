"""The demo of the tutor: a choice, a dialogue, a redacted reply, a note and an automatic debrief.

The student's texts are fixed; the trickster's replies come from the model. The session replies in
English so that viewers can read it. If the model does not end the dialogue, the demo sends a signal
to end it, as a teacher would.
"""

from __future__ import annotations

from typing import Final

from turnlog.client import operations
from turnlog.client.operations import build_command
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.contract.turn_payloads import CommandResult, SubmittedTurn
from turnlog.services.cli.client.prompt_reads import fetch_explanation, fetch_prompt
from turnlog.services.cli.conversation.session_conversation import (
    SessionConversation,
    find_follow_up_turn,
)
from turnlog.services.cli.demo.demo_stage import (
    EXCERPT_CHARACTERS,
    DemoStage,
    ProposedCommand,
)
from turnlog.services.cli.views.theme import FAMILY_COLOURS
from turnlog.services.cli.views.why_view import render_why

SCRIPTED_MODEL: Final = "scripted/trickster"


TASK: Final = "share-before-reading"


CHOICE: Final = "share"


TURNS: Final = (
    "What is that headline about?",
    "Who wrote it? I could ask them.",
    "Then why should I believe it?",
    "You rush me, and I cannot ask who wrote it. I would look for a second source.",
)


ENDING_SIGNAL: Final = "understood"
"""The signal that ends a successful dialogue."""


async def play_scenario(stage: DemoStage, model: str) -> tuple[str, tuple[ProposedCommand, ...]]:
    """Play the demo; return its session and the commands to suggest."""
    attributes = {"task": TASK, "locale": "en"}
    session = (await stage.service.send(operations.open_session("trickster", attributes))).session
    await stage.begin_scene("A lesson", f"session {session} · {model} · in English")
    withheld = await _play_lesson(stage, SessionConversation(stage.service, session))
    await stage.show_events(session)
    after = withheld + 1 if withheld else len(TURNS)
    suffix = ", and who had it said to him" if withheld else ""
    await stage.begin_scene("Why the trickster said that", f"turn {after}, layer by layer{suffix}")
    explanation = await fetch_explanation(stage.service, session, str(after))
    stage.console.print(
        render_why(
            explanation,
            await fetch_prompt(stage.service, session, explanation.call),
            EXCERPT_CHARACTERS,
        )
    )
    stage.print_whole_command(f"why {session} {after}")
    await stage.show_verification(session)
    return session, _build_next_commands(stage, session, withheld)


async def _play_lesson(stage: DemoStage, conversation: SessionConversation) -> int | None:
    """Play the lesson; return the first turn whose reply was redacted, or None."""
    session = conversation.session
    await stage.print_typed_line("choose", FAMILY_COLOURS["phase"], f"{CHOICE}, without reading")
    await stage.service.send(operations.record_choice(session, CHOICE))
    turn: SubmittedTurn | None = None
    for text in TURNS:
        if turn and (await find_follow_up_turn(conversation, turn)):
            break
        stage.console.print()
        turn = await stage.play_turn(conversation, text)
    if turn and not await find_follow_up_turn(conversation, turn):
        await stage.service.send(
            build_command(
                format_path(api_paths.PHASE, session=session),
                {"signal": ENDING_SIGNAL},
                CommandResult,
            )
        )
    while turn and (turn := await find_follow_up_turn(conversation, turn)):
        stage.console.print()
        await stage.show_reply(conversation, turn)
    turns = (await stage.service.send(operations.fetch_history(session))).turns
    return next((each.turn for each in turns if each.redacted), None)


def _build_next_commands(
    stage: DemoStage, session: str, withheld: int | None
) -> tuple[ProposedCommand, ...]:
    http, turnlog = stage.location.http, stage.location.turnlog_command
    lucky = "--blueprint trickster -a task=lucky-draw -a locale=en"
    audit = f"withheld {session} {withheld} --data-dir {stage.location.data_dir}"
    return (
        ProposedCommand("take another lesson yourself", f"{turnlog} chat {lucky} --url {http}"),
        ProposedCommand(
            "why the debrief began by itself", f"{turnlog} why {session} 5 --url {http}"
        ),
        ProposedCommand("the reply that was withheld, for an auditor", f"{turnlog} {audit}")
        if withheld
        else ProposedCommand(
            "the conversation as it is recorded", f"{turnlog} history {session} --url {http}"
        ),
    )
