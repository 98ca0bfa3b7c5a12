"""A conversation run under one version of a blueprint, and assembled again under another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from tests.parts.house import BY, TENANT, House
from turnlog.events.model.call_events import ContextAssembled
from turnlog.projections.audit.what_if.hypothetical_change import WhatIfChange
from turnlog.projections.audit.what_if.reassembled_calls import (
    PromptSize,
    ReassembledCall,
    rebuild_calls,
)
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_history_reach
from turnlog.projections.blueprint.validation.input_values import check_values
from turnlog.projections.prompt.session_material import SessionMaterial
from turnlog.projections.session.commands import (
    Command,
    ExcludeTurn,
    OpenSession,
    RedactReply,
    SubmitTurn,
)
from turnlog.services.auditing.session_record import SessionRecordLoader
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.blueprints.plugins import collect_installed

Values = Mapping[str, JsonValue]
NAME = "clerk"
FIRST = """
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
SECOND = """
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


def folder_of(root: Path, text: str, **files: str) -> Path:
    """Write one blueprint into `root` and return `root`."""
    for place, said in {"blueprint.yaml": text, **files}.items():
        file = root / NAME / place.replace("__", "/").replace("_md", ".md")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(said)
    return root


@dataclass(frozen=True, slots=True)
class Said:
    """One turn, with the commands that follow its answer."""

    text: str
    reply: str
    inputs: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    then: tuple[Command, ...] = ()


CONVERSATION = (
    Said("Where is the form?", "On the left, beside the door that says office."),
    Said("And the pen?", "Here.", {"place": "at the very last of all the windows"}),
    Said("Who are you?", "I am the clerk of this office.", then=(ExcludeTurn(2),)),
    Said("Is it late?", "It is.", then=(RedactReply(4, "rude", "operator", "[withheld]"),)),
    Said("How late is it?", "It is half past four, and we close at five.", {"place": "outside"}),
    Said("Then I shall come again tomorrow morning.", "Do that, we open at eight o'clock."),
    Said("Thank you.", "You are welcome. " * 6),
    Said("Good bye.", "Good bye."),
)


async def led(
    house: House, folder: Path, session: str, said: Sequence[Said], **attributes: JsonValue
) -> None:
    """Lead a conversation by the blueprint as it is in a folder."""
    library = BlueprintFolders((folder,))
    house.library = library
    blueprint = library.load_blueprint(NAME)
    await opened(house, library, blueprint, session, attributes)
    for each in said:
        await turn(house, blueprint, session, each)


async def opened(
    house: House, library: BlueprintFolders, blueprint: Blueprint, session: str, attributes: Values
) -> None:
    """Open a session as a gateway does."""
    cartridge = library.read_cartridge(blueprint, attributes)
    command = OpenSession(
        await house.blueprints.store_blueprint(TENANT, blueprint),
        blueprint.default_profile,
        compute_history_reach(blueprint),
        check_values(blueprint.attributes, attributes, "attributes"),
        None if cartridge is None else await house.blueprints.store_cartridge(TENANT, cartridge),
        SessionMaterial(blueprint, cartridge or {}).phases,
    )
    await house.sessions.handle(TENANT, session, command, BY)


async def turn(house: House, blueprint: Blueprint, session: str, said: Said) -> None:
    """Submit a turn, have it answered, and send the commands that follow."""
    house.model.scripts.append([said.reply])
    inputs = check_values(blueprint.inputs, said.inputs, "inputs")
    command = SubmitTurn(said.text, blueprint.policies, inputs=inputs)
    done = await house.sessions.handle(TENANT, session, command, BY)
    await house.answer(done.events[-1])
    for each in said.then:
        await house.sessions.handle(TENANT, session, each, BY)


async def supposed(house: House, session: str, change: WhatIfChange) -> tuple[ReassembledCall, ...]:
    """Assemble the calls of a session again under a change."""
    record = await SessionRecordLoader(house.sessions).load_record(TENANT, session)
    return tuple(rebuild_calls(record.events, record.blobs, collect_installed(), change))


def really(house: House, session: str) -> tuple[PromptSize, ...]:
    """Give the prompts that a session really had."""
    fixed = (each.event for each in house.events(session))
    return tuple(
        PromptSize(
            call.manifest.kind,
            call.model,
            call.manifest.tokens,
            call.manifest.counter,
            call.manifest.budget,
            call.manifest.prefix.tokens if call.manifest.prefix else None,
            call.manifest.digest,
        )
        for call in fixed
        if isinstance(call, ContextAssembled)
    )


def changed_to(folder: Path, model: str | None = None) -> WhatIfChange:
    """Suppose the blueprint as it is in a folder."""
    library = BlueprintFolders((folder,))
    return WhatIfChange(library, library.load_blueprint(NAME), model=model)


Lead = Callable[[House, Path, str], Awaitable[None]]
