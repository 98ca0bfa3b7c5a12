"""Up to where a provider is asked to cache a prompt, and how such a prompt is read back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.projections.prompt.test_prompt_media import PICTURE, build_part
from tests.support.sessions.prompt_assembly import (
    REPLY_CALL,
    assemble_next_prompt,
    build_blobs,
    open_with_blueprint,
    parse_blueprint,
)
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.manifest import RequestDialect
from turnlog.projections.audit.record.prompt_readback import read_prompt
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.projections.prompt.cache_marks import find_cache_marks
from turnlog.projections.prompt.chat_request import ChatMessage
from turnlog.projections.prompt.request_dialect import RENDERING_VERSION
from turnlog.projections.session.commands import SubmitTurn
from turnlog.projections.testing import SessionScenario, claim_turn, complete_turn
from turnlog.services.bundle.verifier import EventChain, rebuild_messages

WRITTEN = """\
blueprint: guide
version: 1
layers:
  persona: {file: persona.md}
  mood: {text: "Be merry."}
calls:
  reply:
    messages: [{system: [persona]}, {system: [mood]}, {history: recent}, {user: [input]}]
    cache: CACHE
history: {recent: {last_messages: 4}}
profiles: {chat: {default: true, call: reply}}
"""

FILES = {"persona": "You are a guide."}

MARKING = replace(
    REPLY_CALL, dialect=RequestDialect(rendering=RENDERING_VERSION, cache_marks="anthropic")
)


def build_guide(cache: str) -> Blueprint:
    return parse_blueprint(WRITTEN.replace("CACHE", cache))


def run_turns(blueprint: Blueprint, turns: int, *parts: MediaPart) -> SessionScenario:
    """Run turns, and submit one more with these parts."""
    session = open_with_blueprint(blueprint, FILES)
    for number in range(turns):
        asked = SubmitTurn(text=f"Question {number}?", policies=Policies())
        session = session.apply_steps(asked, claim_turn(), complete_turn(f"Answer {number}."))
    last = SubmitTurn(text="And now?", policies=Policies(), parts=parts)
    return session.apply_steps(last, claim_turn())


def assemble_marked(session: SessionScenario, blueprint: Blueprint) -> AssembledPrompt:
    """Assemble the next prompt, and require that both readers agree with it."""
    found = assemble_next_prompt(session, blueprint, FILES, MARKING)
    blobs = build_blobs(FILES)
    assert read_prompt(found.manifest, session.events, blobs) == found.request.messages
    chain, first = EventChain(), session.events[0]
    chain.read_lines([each.stored for each in session.events], first.tenant, first.session)
    encoded = {digest: text.encode() for digest, text in blobs.items()}
    plain = found.manifest.model_dump(mode="json", exclude_defaults=True)
    rebuilt = rebuild_messages(plain, chain, encoded)
    assert rebuilt == [each.encode_plain() for each in found.request.messages]
    return found


@pytest.mark.parametrize(
    ("cache", "turns", "marks"),
    [
        ("auto", 0, (1,)),
        ("auto", 1, (1, 3)),
        ("auto", 2, (1, 5)),
        ("auto", 3, (1,)),
        ("off", 2, ()),
        ("[persona]", 2, (0,)),
        ("[mood, input]", 2, (1, 6)),
    ],
    ids=["first turn", "history", "full", "sliding", "off", "a layer", "layers"],
)
def test_marks_are_at_the_ends_of_what_the_next_prompt_repeats(
    cache: str, turns: int, marks: tuple[int, ...]
) -> None:
    blueprint = build_guide(cache)
    found = assemble_marked(run_turns(blueprint, turns), blueprint)
    assert found.manifest.cache_marks == marks
    marked = [place for place, each in enumerate(found.request.messages) if each.ends_cached]
    assert tuple(marked) == marks


def test_request_without_marks_is_the_same_byte_for_byte() -> None:
    blueprint = build_guide("off")
    session = run_turns(blueprint, 2)
    marking = assemble_marked(session, blueprint)
    plain = assemble_next_prompt(session, build_guide("auto"), FILES)
    assert marking.manifest.digest == plain.manifest.digest
    assert plain.manifest.cache_marks == ()


def test_history_that_the_input_joins_has_no_end_to_mark() -> None:
    written = WRITTEN.replace("{system: [persona]}, {system: [mood]}, ", "").replace(
        "CACHE", "auto"
    )
    dialect = RequestDialect(
        rendering=RENDERING_VERSION, roles="alternating", cache_marks="anthropic"
    )
    blueprint = parse_blueprint(written)
    noted = SubmitTurn(text="The shop is closed.", policies=Policies(), role="system")
    asked = SubmitTurn(text="And now?", policies=Policies())
    session = open_with_blueprint(blueprint, FILES).apply_steps(noted, asked, claim_turn())
    call = replace(REPLY_CALL, dialect=dialect)
    found = assemble_next_prompt(session, blueprint, FILES, call)
    assert [each.content for each in found.request.messages] == ["The shop is closed.\n\nAnd now?"]
    assert found.manifest.cache_marks == ()


def test_message_with_a_picture_is_not_marked() -> None:
    blueprint = build_guide("[input]")
    session = run_turns(blueprint, 0, build_part(PICTURE))
    assert assemble_marked(session, blueprint).manifest.cache_marks == ()


def test_last_result_of_tool_rounds_is_marked() -> None:
    spec = build_guide("auto").calls["reply"]
    messages = (ChatMessage("user", "Go."), ChatMessage("tool", "3", tool_call_id="c1"))
    assert find_cache_marks(spec, messages, (), ()) == (1,)


def test_cached_layer_must_be_one_of_the_call() -> None:
    with pytest.raises(FaultyBlueprint, match="there is no layer `weather`"):
        build_guide("[persona, weather]")
