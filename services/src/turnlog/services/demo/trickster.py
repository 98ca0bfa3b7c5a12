"""The demo of the tutor: a choice, a dialogue, a redacted reply, a note and an automatic debrief.

The student's texts are fixed; the trickster's replies come from the model. The session replies in
English so that viewers can read it. If the model does not end the dialogue, the demo sends a signal
to end it, as a teacher would.
"""

from __future__ import annotations

from typing import Final

from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.screens.palette import FAMILIES
from turnlog.services.cli.screens.why import why_screen
from turnlog.services.cli.talk.conversation import Conversation, opened, posted
from turnlog.services.cli.talk.following import following
from turnlog.services.demo.stage import Stage
from turnlog.services.gateway.payloads.turns import Submitted

SCRIPT: Final = "scripted/trickster"
TASK: Final = "share-before-reading"
CHOICE: Final = "share"
TURNS: Final = (
    "What is that headline about?",
    "Who wrote it? I could ask them.",
    "Then why should I believe it?",
    "You rush me, and I cannot ask who wrote it. I would look for a second source.",
)
ENOUGH: Final = "understood"
"""The signal that ends a successful dialogue."""


async def perform(stage: Stage, model: str) -> tuple[str, tuple[str, ...]]:
    """Play the demo; return its session and the commands to suggest."""
    session = (await opened(stage.client, "trickster", {"task": TASK, "locale": "en"})).session
    await stage.scene("A lesson", f"session {session} · {model} · in English")
    withheld = await _lesson(stage, Conversation(stage.client, session))
    await stage.events(session)
    after = withheld + 1 if withheld else len(TURNS)
    remark = ", and who had it said to him" if withheld else ""
    await stage.scene("Why the trickster said that", f"turn {after}, layer by layer{remark}")
    reader = Reader(stage.client)
    why = await reader.why(session, str(after))
    stage.console.print(why_screen(why, await reader.prompt(session, why.call)))
    await stage.proof(session)
    return session, _next(stage, session, withheld)


async def _lesson(stage: Stage, conversation: Conversation) -> int | None:
    """Play the lesson; return the first turn whose reply was redacted, or None."""
    reader, session = Reader(stage.client), conversation.session
    await stage.type("choose", FAMILIES["phase"], f"{CHOICE}, without reading")
    await posted(stage.client, f"/v1/sessions/{session}/choices", {"choice": CHOICE})
    turn: Submitted | None = None
    for text in TURNS:
        if turn and (await following(conversation, turn)):
            break
        stage.console.print()
        turn = await stage.turn(conversation, text)
    if turn and not await following(conversation, turn):
        await posted(stage.client, f"/v1/sessions/{session}/phase", {"signal": ENOUGH})
    while turn and (turn := await following(conversation, turn)):
        stage.console.print()
        await stage.show(conversation, turn)
    told = (await reader.history(session)).turns
    return next((each.turn for each in told if each.redacted), None)


def _next(stage: Stage, session: str, withheld: int | None) -> tuple[str, ...]:
    http, turnlog = stage.where.http, stage.where.turnlog
    lucky = "--blueprint trickster -a task=lucky-draw -a locale=en"
    audit = f"withheld {session} {withheld} --data-dir {stage.where.data_dir}"
    return (
        f"{turnlog} chat {lucky} --url {http}",
        f"{turnlog} why {session} 5 --url {http}",
        f"{turnlog} {audit}" if withheld else f"{turnlog} history {session} --url {http}",
    )
