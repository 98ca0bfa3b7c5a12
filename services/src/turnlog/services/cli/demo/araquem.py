"""The demo of `araquem`: a fund is named once, and later questions refer to it.

Questions use the fixed request schema of `/v1/ask`, whose answers show nothing of the conversation.
The inherited references and the fallbacks to the resolver are read from the log.
"""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from pydantic import JsonValue
from rich.table import Table
from rich.text import Text

from turnlog.client import operations
from turnlog.client.operations import build_command
from turnlog.contract import api_paths
from turnlog.contract.question_payloads import QuestionAnswer
from turnlog.contract.session_payloads import OpenedSession
from turnlog.services.cli.actions.memory_actions import fetch_references
from turnlog.services.cli.client.prompt_reads import list_calls
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.cli.demo.demo_stage import DemoStage, ProposedCommand
from turnlog.services.cli.views.session_view import LABEL_WIDTH, REPLY_COLOUR, USER_COLOUR
from turnlog.services.cli.views.theme import MUTED, render_labelled_text

SCRIPTED_MODEL: Final = "scripted/araquem"


QUESTIONS: Final = (
    "How risky is LOGT11?",
    "And what is its price?",
    "What does it own?",
    "Sing me a song.",
)


CLIENT_ID: Final = "demo"


async def play_scenario(stage: DemoStage, model: str) -> tuple[str, tuple[ProposedCommand, ...]]:
    """Play the demo; return its session and the commands to suggest."""
    conversation = f"{uuid4().hex[:8]}: Ada's"
    await stage.begin_scene("Questions at the front door", f"conversation {conversation} · {model}")
    for place, question in enumerate(QUESTIONS):
        stage.console.print("\n" if place else "", end="")
        await _post_question(stage, conversation, question)
    session = await _find_session(stage, conversation)
    await stage.show_events(session)
    await stage.begin_scene(
        "What was meant without being said", "`turnlog references`, and the record"
    )
    stage.console.print(await _render_references(stage.service, session))
    last = (await stage.service.send(list_calls(session))).calls[-1]
    note = "the facts are the resolver's, word for word"
    await stage.show_prompt(session, last.call, "What the model was sent", note)
    await stage.show_verification(session)
    return session, _build_next_commands(stage, session, conversation)


async def _post_question(stage: DemoStage, conversation: str, question: str) -> None:
    await stage.print_typed_line("you", USER_COLOUR, question)
    form: dict[str, JsonValue] = {
        "question": question,
        "conversation_id": conversation,
        "client_id": CLIENT_ID,
        "nickname": "Ada",
    }
    answered = await stage.service.send(build_command(api_paths.ASK, form, QuestionAnswer))
    reply = answered.answer or f"(nothing: {answered.status.reason})"
    stage.console.print(render_labelled_text("reply", reply, REPLY_COLOUR, LABEL_WIDTH))


async def _find_session(stage: DemoStage, conversation: str) -> str:
    """Find the session of the conversation by its key, as the application does."""
    key: JsonValue = {"client_id": CLIENT_ID, "conversation_id": conversation}
    form: dict[str, JsonValue] = {"blueprint": "araquem", "key": key}
    found = await stage.service.send(build_command(api_paths.SESSIONS, form, OpenedSession))
    return found.session


async def _render_references(service: ServiceClient, session: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=MUTED, pad_edge=False)
    for title in ("turn", "asked", "answered by"):
        table.add_column(title)
    for turn in (await service.send(operations.fetch_history(session))).turns:
        by = f"the resolver: {turn.fallback}" if turn.fallback else "the model"
        table.add_row(str(turn.turn), turn.text or "", by)
    last = (await service.send(fetch_references(session))).last_reference or {}
    table.caption = Text(f"spoken of last: {last.get('ticker')}, in turn {last.get('turn_index')}")
    table.caption_justify = "left"
    return table


def _build_next_commands(
    stage: DemoStage, session: str, conversation: str
) -> tuple[ProposedCommand, ...]:
    http, turnlog = stage.location.http, stage.location.turnlog_command
    form = (
        f'{{"question": "Is it safe?", "conversation_id": "{conversation}", '
        f'"client_id": "{CLIENT_ID}", "nickname": "Ada"}}'
    )
    return (
        ProposedCommand("ask on", f"curl {http}/v1/ask --json {_quote_shell(form)}"),
        ProposedCommand(
            "what a next question would inherit",
            f"{turnlog} references {session} --intent fiis_precos --entity fiis --url {http}",
        ),
        ProposedCommand("what is remembered", f"{turnlog} memory {session} --url {http}"),
    )


def _quote_shell(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
