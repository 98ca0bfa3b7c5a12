"""A conversation run under one version of a blueprint, and assembled again under another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from tests.support.sessions.session_harness import TENANT, TESTER, SessionHarness
from turnlog.events.model.call_events import ContextAssembled
from turnlog.projections.audit.what_if.hypothetical_change import WhatIfChange
from turnlog.projections.audit.what_if.reassembled_calls import (
    PromptSize,
    ReassembledCall,
    measure_prompt,
    rebuild_calls,
)
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_history_reach
from turnlog.projections.blueprint.validation.input_values import check_values
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import Command, ExcludeTurn, OpenSession, SubmitTurn
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.services.audit.session_record import SessionRecordLoader
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.extensions.plugins import collect_installed

Values = Mapping[str, JsonValue]

NAME = "clerk"

FIRST_VERSION = """
blueprint: clerk
version: 1
attributes:
  language: {type: text, default: English}
  tone: {type: text, default: plain}
inputs:
  place: {type: text}
prompts: {search: ["{provider}", "."]}
layers:
  persona: {file: persona.md, keep: always}
  language: {text: "Always answer in {language}."}
  place: {input: place}
calls:
  reply:
    messages:
      - system: [persona, language]
      - history: recent
      - user: [place, input]
    budget: window
history:
  recent: {}
budget:
  window: {tokens: 200, ladder: [{drop_oldest_pairs: {history: recent}}]}
policies: {replacement: "[withheld]"}
profiles:
  chat: {default: true, call: reply}
"""

SECOND_VERSION = """
blueprint: clerk
version: 2
attributes:
  language: {type: text, default: English}
  tone: {type: text, default: plain}
inputs:
  place: {type: text, default: at the counter}
layers:
  persona: {file: persona.md, keep: always}
  tone: {attribute: tone}
  withheld: {text: "A reply of yours was withheld.", when: reply_redacted}
  place: {input: place}
calls:
  answer:
    messages:
      - system: [persona, tone]
      - history: short
      - user: [withheld, place, input]
    budget: narrow
    parameters: {temperature: 0.5}
history:
  short: {max_turns: 4}
budget:
  narrow:
    tokens: 90
    ladder: [{trim: {layer: place, chars: [8]}}, {drop_oldest_pairs: {history: short}}]
policies: {replacement: "[withheld]"}
profiles:
  chat: {default: true, call: answer}
"""


def write_blueprint_folder(root: Path, text: str, **files: str) -> Path:
    """Write one blueprint into `root` and return `root`."""
    for place, content in {"blueprint.yaml": text, **files}.items():
        file = root / NAME / place.replace("__", "/").replace("_md", ".md")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return root


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """One turn, with the commands that follow its answer."""

    text: str
    reply: str
    inputs: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    commands_after: tuple[Command, ...] = ()


CONVERSATION = (
    ScriptedTurn("Where is the form?", "On the left, beside the door that says office."),
    ScriptedTurn("And the pen?", "Here.", {"place": "at the very last of all the windows"}),
    ScriptedTurn(
        "Who are you?", "I am the clerk of this office.", commands_after=(ExcludeTurn(2),)
    ),
    ScriptedTurn(
        "Is it late?", "It is.", commands_after=(RedactReply(4, "rude", "operator", "[withheld]"),)
    ),
    ScriptedTurn(
        "How late is it?", "It is half past four, and we close at five.", {"place": "outside"}
    ),
    ScriptedTurn("Then I shall come again tomorrow morning.", "Do that, we open at eight o'clock."),
    ScriptedTurn("Thank you.", "You are welcome. " * 6),
    ScriptedTurn("Good bye.", "Good bye."),
)


async def run_conversation(
    house: SessionHarness,
    folder: Path,
    session: str,
    turns: Sequence[ScriptedTurn],
    **attributes: JsonValue,
) -> None:
    """Lead a conversation by the blueprint as it is in a folder."""
    library = BlueprintFolders((folder,))
    house.library = library
    blueprint = library.load_blueprint(NAME)
    await open_session(
        house=house, library=library, blueprint=blueprint, session=session, attributes=attributes
    )
    for each in turns:
        await run_turn(house, blueprint, session, each)


async def open_session(
    house: SessionHarness,
    library: BlueprintFolders,
    blueprint: Blueprint,
    session: str,
    attributes: Values,
) -> None:
    """Open a session as a gateway does."""
    cartridge = library.read_cartridge(blueprint, attributes)
    command = OpenSession(
        blueprint=await house.blueprints.store_blueprint(TENANT, blueprint),
        profile=blueprint.default_profile,
        reach=compute_history_reach(blueprint),
        attributes=check_values(blueprint.attributes, attributes, "attributes"),
        cartridge=None
        if cartridge is None
        else await house.blueprints.store_cartridge(TENANT, cartridge),
        phases=SessionMaterial(blueprint=blueprint, cartridge=cartridge or {}).phases,
    )
    await house.sessions.handle(TENANT, session, command, TESTER)


async def run_turn(
    house: SessionHarness, blueprint: Blueprint, session: str, turn: ScriptedTurn
) -> None:
    """Submit a turn, have it answered, and send the commands that follow."""
    house.model.scripts.append([turn.reply])
    inputs = check_values(blueprint.inputs, turn.inputs, "inputs")
    command = SubmitTurn(text=turn.text, policies=blueprint.policies, inputs=inputs)
    done = await house.sessions.handle(TENANT, session, command, TESTER)
    await house.run_turn(done.events[-1])
    for each in turn.commands_after:
        await house.sessions.handle(TENANT, session, each, TESTER)


async def run_what_if(
    house: SessionHarness, session: str, change: WhatIfChange
) -> tuple[ReassembledCall, ...]:
    """Assemble the calls of a session again under a change."""
    record = await SessionRecordLoader(house.sessions).load_record(TENANT, session)
    return tuple(rebuild_calls(record.events, record.blobs, collect_installed(), change))


def list_recorded_prompts(house: SessionHarness, session: str) -> tuple[PromptSize, ...]:
    """Give the prompts that a session really had."""
    fixed = (each.event for each in house.list_events(session))
    return tuple(
        measure_prompt(call.model, call.manifest)
        for call in fixed
        if isinstance(call, ContextAssembled)
    )


def build_change(folder: Path, model: str | None = None) -> WhatIfChange:
    """Suppose the blueprint as it is in a folder."""
    library = BlueprintFolders((folder,))
    return WhatIfChange(folder=library, blueprint=library.load_blueprint(NAME), model=model)


ConversationRunner = Callable[[SessionHarness, Path, str], Awaitable[None]]
