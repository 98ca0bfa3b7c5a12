"""The demo of `araquem`: a fund is named once, and later questions refer to it.

Questions use the fixed request schema of `/v1/ask`, whose answers show nothing of the conversation.
The inherited references and the fallbacks to the resolver are read from the log.
"""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from rich.table import Table
from rich.text import Text

from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.screens.history import REPLY, SAID, WIDTH
from turnlog.services.cli.screens.margin import beside
from turnlog.services.cli.screens.palette import QUIET
from turnlog.services.cli.screens.prompt import prompt_screen
from turnlog.services.cli.talk.conversation import posted
from turnlog.services.demo.stage import Stage
from turnlog.services.gateway.payloads.asking import Answered
from turnlog.services.gateway.payloads.sessions import Opened

SCRIPT: Final = "scripted/araquem"
QUESTIONS: Final = (
    "How risky is LOGT11?",
    "And what is its price?",
    "What does it own?",
    "Sing me a song.",
)
CLIENT: Final = "demo"


async def perform(stage: Stage, model: str) -> tuple[str, tuple[str, ...]]:
    """Play the demo; return its session and the commands to suggest."""
    conversation = f"{uuid4().hex[:8]}: Ada's"
    await stage.scene("Questions at the front door", f"conversation {conversation} · {model}")
    for place, question in enumerate(QUESTIONS):
        stage.console.print("\n" if place else "", end="")
        await _ask(stage, conversation, question)
    session = await _session(stage, conversation)
    await stage.events(session)
    reader = Reader(stage.client)
    await stage.scene("What was meant without being said", "`turnlog references`, and the record")
    stage.console.print(await _meanings(reader, session))
    last = (await reader.calls(session)).calls[-1]
    await stage.scene("What the model was sent", "the facts are the resolver's, word for word")
    stage.console.print(prompt_screen(await reader.prompt(session, last.call)))
    await stage.proof(session)
    return session, _next(stage, session, conversation)


async def _ask(stage: Stage, conversation: str, question: str) -> None:
    await stage.type("you", SAID, question)
    form = {
        "question": question,
        "conversation_id": conversation,
        "client_id": CLIENT,
        "nickname": "Ada",
    }
    answered = Answered.model_validate_json(await posted(stage.client, "/v1/ask", {**form}))
    said = answered.answer or f"(nothing: {answered.status.reason})"
    stage.console.print(beside("reply", said, REPLY, WIDTH))


async def _session(stage: Stage, conversation: str) -> str:
    """Find the session of the conversation by its key, as the application does."""
    key = {"client_id": CLIENT, "conversation_id": conversation}
    found = await posted(stage.client, "/v1/sessions", {"blueprint": "araquem", "key": {**key}})
    return Opened.model_validate_json(found).session


async def _meanings(reader: Reader, session: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=QUIET, pad_edge=False)
    for title in ("turn", "asked", "answered by"):
        table.add_column(title)
    for turn in (await reader.history(session)).turns:
        by = f"the resolver: {turn.fallback}" if turn.fallback else "the model"
        table.add_row(str(turn.turn), turn.text or "", by)
    last = (await reader.references(session)).last_reference or {}
    table.caption = Text(f"spoken of last: {last.get('ticker')}, in turn {last.get('turn_index')}")
    table.caption_justify = "left"
    return table


def _next(stage: Stage, session: str, conversation: str) -> tuple[str, ...]:
    http, turnlog = stage.where.http, stage.where.turnlog
    form = (
        f'{{"question": "Is it safe?", "conversation_id": "{conversation}", '
        f'"client_id": "{CLIENT}", "nickname": "Ada"}}'
    )
    return (
        f"curl {http}/v1/ask --json {_quoted(form)}",
        f"{turnlog} references {session} --intent fiis_precos --entity fiis --url {http}",
        f"{turnlog} memory {session} --url {http}",
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
