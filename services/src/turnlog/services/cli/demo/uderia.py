"""The demo of the agent platform: a conversation, then plans and tools, each part measured.

The phase `operate` does not see the turns of `ideate`; only the texts that the caller carries over
link them. The tools are those of an MCP server in its own process. Then knowledge is imported,
found and adapted; a coordinator asks two colleagues at once; and the quota of its user is used up.
"""

from __future__ import annotations

import asyncio
from typing import Final

from pydantic import JsonValue
from rich.table import Table
from rich.text import Text

from turnlog.client import operations, tenant_operations
from turnlog.client.operations import build_read
from turnlog.contract import api_paths
from turnlog.contract.call_payloads import GrowthView
from turnlog.events.errors import Refused, Unavailable
from turnlog.events.model.child_events import ChildRequested, ChildSettled
from turnlog.events.model.tool_events import ToolReturned
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS
from turnlog.services.cli.client.event_reads import EventQuery, read_events
from turnlog.services.cli.client.prompt_reads import fetch_explanation
from turnlog.services.cli.conversation.session_conversation import (
    SessionConversation,
)
from turnlog.services.cli.demo.demo_stage import DemoStage, ProposedCommand
from turnlog.services.cli.error_display import describe_error, print_error
from turnlog.services.cli.knowledge.knowledge_actions import import_knowledge, send_search
from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.views.event_view import render_events
from turnlog.services.cli.views.growth_view import render_growth
from turnlog.services.cli.views.provenance_view import render_origin
from turnlog.services.cli.views.theme import FAMILY_COLOURS, MUTED
from turnlog.services.cli.views.why_view import render_explained_omissions

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


KNOWLEDGE: Final = SHIPPED_BLUEPRINTS / "uderia" / "knowledge"


INDEX_SEARCHES: Final = 12
"""How often to search until the index has the imported entries; each search waits for them too."""


ADAPTED_QUESTION: Final = "How many sailings left more than 30 minutes late yesterday?"
"""Nearly the question that one of the shipped cases answers."""


ADAPTED_CALL: Final = "4.1"
"""The call that plans its turn."""


DECIDED_LAYERS: Final = ("strategy", "adapt", "tools_text", "cases")
"""The layers that depend on what was retrieved."""


_CHILD_EVENTS: Final = (ChildRequested, ChildSettled)


USER: Final = "mira"


COORDINATED_QUESTION: Final = "Was there a storm yesterday, and what would we do in one?"


async def play_scenario(stage: DemoStage, model: str) -> tuple[str, tuple[ProposedCommand, ...]]:
    """Play the demo; return its session and the commands to suggest."""
    session = (await stage.service.send(operations.open_session("uderia"))).session
    conversation = SessionConversation(stage.service, session)
    await stage.begin_scene("Thinking aloud", f"session {session} · {model}")
    await stage.play_turn(conversation, FIRST_TEXT)
    await stage.begin_scene("Going to work", "phase by phase; only what is said goes along")
    for phase, carried in PHASE_MOVES.items():
        await stage.print_typed_line(phase, FAMILY_COLOURS["phase"], carried)
        await stage.service.send(operations.enter_phase(session, phase, carry=carried))
    stage.console.print()
    await stage.play_turn(conversation, QUESTION)
    stage.console.print()
    await stage.play_turn(conversation, FOLLOW_UP_QUESTION)
    await _play_adaptation(stage, conversation)
    coordinator = await _play_coordination(stage)
    last = await stage.show_events(session)
    note = "twenty tools, and nothing of the first phase"
    await stage.show_prompt(session, PLAN_CALL, "What the plan was made from", note)
    await _show_adaptation(stage, session)
    await stage.begin_scene("What each contributor cost", "call by call, as `turnlog growth`")
    parameters = {"session": session, "group_by": "kind", "min_sequence": last}
    growth = await stage.service.send(build_read(api_paths.GROWTH, GrowthView, parameters))
    stage.console.print(render_growth(growth))
    await stage.show_verification(session, coordinator)
    return session, await _build_next_commands(stage, session)


async def _play_adaptation(stage: DemoStage, conversation: SessionConversation) -> None:
    """Import the shipped knowledge, and play a turn that adapts a case of it."""
    await stage.begin_scene("What went well before", "imported, then found for the next plan")
    target = ServiceTarget(url=stage.location.http)
    cases, documents = KNOWLEDGE / "harbour-cases.csv", KNOWLEDGE / "harbour-handbook.md"
    await import_knowledge(
        target=target, collection="champion", paths=[cases], kind="case", output="table"
    )
    await import_knowledge(
        target=target, collection="knowledge", paths=[documents], kind="document", output="table"
    )
    form: dict[str, JsonValue] = {
        "text": ADAPTED_QUESTION,
        "collections": ["champion"],
        "limit": 3,
    }
    stage.console.print()
    for _ in range(INDEX_SEARCHES):
        try:
            await send_search(target, form, "table")
            break
        except Unavailable as behind:
            await asyncio.sleep(behind.retry_after)
    stage.console.print()
    await stage.play_turn(conversation, ADAPTED_QUESTION)


async def _play_coordination(stage: DemoStage) -> str:
    """Play a turn of a coordinator for a user with a quota of one; return its session."""
    await stage.service.send(tenant_operations.set_quota(USER, {"requests_per_day": 1}))
    opening = operations.open_session("uderia", profile="genie")
    session = (await stage.service.send(opening)).session
    await stage.begin_scene("Asking two colleagues at once", f"session {session} · for {USER}")
    conversation = SessionConversation(stage.service, session, USER)
    await stage.play_turn(conversation, COORDINATED_QUESTION)
    events = [each async for each in read_events(stage.service, EventQuery(session))]
    stage.console.print()
    stage.console.print(
        render_events(each for each in events if isinstance(each.event, _CHILD_EVENTS))
    )
    await stage.begin_scene("A quota that is used up", f"{USER} may ask once a day")
    try:
        await stage.play_turn(conversation, COORDINATED_QUESTION)
    except Refused as refused:
        print_error(describe_error(refused), stage.console)
    return session


async def _show_adaptation(stage: DemoStage, session: str) -> None:
    await stage.begin_scene(
        "How a case was adapted", f"of `turnlog why`, what the case decided in call {ADAPTED_CALL}"
    )
    explanation = await fetch_explanation(stage.service, session, ADAPTED_CALL)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for each in explanation.parts:
        if each.part.layer in DECIDED_LAYERS and each.part.is_included:
            table.add_row(each.part.layer, render_origin(each))
    stage.console.print(table)
    omitted = [
        each
        for each in explanation.parts
        if each.part.layer in DECIDED_LAYERS and not each.part.is_included
    ]
    stage.console.print(Text("\nleft out", MUTED))
    stage.console.print(render_explained_omissions(omitted))


async def _build_next_commands(stage: DemoStage, session: str) -> tuple[ProposedCommand, ...]:
    http, turnlog = stage.location.http, stage.location.turnlog_command
    events = [each.event async for each in read_events(stage.service, EventQuery(session))]
    results = [each for each in events if isinstance(each, ToolReturned) and each.result]
    longest = max(results, key=lambda each: each.characters, default=None)
    return (
        *(
            (
                ProposedCommand(
                    "the longest result of a tool, whole",
                    f"{turnlog} tool {session} {longest.call} {longest.id} --url {http}",
                ),
            )
            if longest
            else ()
        ),
        ProposedCommand("why turn 2 was answered so", f"{turnlog} why {session} 2 --url {http}"),
        ProposedCommand("what is left of the quota", f"{turnlog} quota show {USER} --url {http}"),
    )
