"""Messages of one role that are joined for a server: pictures, tool rounds and runs of history."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.projections.prompt.test_prompt_media import (
    FILES,
    PICTURE,
    UNFRAMED,
    WRITTEN,
    build_part,
)
from tests.support.sessions.prompt_assembly import (
    REPLY_CALL,
    assemble_next_prompt,
    build_blobs,
    open_with_blueprint,
    parse_blueprint,
)
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.manifest import RequestDialect
from turnlog.events.tokens import ToolRequest
from turnlog.projections.audit.record.prompt_readback import read_prompt
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.projections.prompt.chat_request import ChatMessage
from turnlog.projections.prompt.message_order import MessageOrder
from turnlog.projections.prompt.request_dialect import RENDERING_VERSION
from turnlog.projections.session.commands import SubmitTurn
from turnlog.projections.testing import (
    SessionScenario,
    claim_turn,
    complete_turn,
    submit_turn,
)
from turnlog.services.bundle.verifier import EventChain, rebuild_messages

ALTERNATING = replace(
    REPLY_CALL, dialect=RequestDialect(rendering=RENDERING_VERSION, roles="alternating")
)

NOTE = SubmitTurn(text="The pier is closed.", policies=Policies(), role="system")


def submit_parts(text: str, *parts: MediaPart) -> SubmitTurn:
    return SubmitTurn(text=text, policies=Policies(), parts=parts)


def assemble_written(session: SessionScenario) -> AssembledPrompt:
    """Assemble the next prompt for a server of alternating roles, and require both readers."""
    found = assemble_next_prompt(session, UNFRAMED, FILES, ALTERNATING)
    blobs = build_blobs(FILES)
    assert read_prompt(found.manifest, session.events, blobs) == found.request.messages
    chain, first = EventChain(), session.events[0]
    chain.read_lines([each.stored for each in session.events], first.tenant, first.session)
    encoded = {digest: text.encode() for digest, text in blobs.items()}
    plain = found.manifest.model_dump(mode="json", exclude_defaults=True)
    rebuilt = rebuild_messages(plain, chain, encoded)
    assert rebuilt == [each.encode_plain() for each in found.request.messages]
    return found


@pytest.mark.parametrize("text", ["What is this?", ""])
def test_picture_stands_before_its_own_text_in_a_joined_message(text: str) -> None:
    session = open_with_blueprint(UNFRAMED, FILES).apply_steps(NOTE)
    asked = submit_parts(text, build_part(PICTURE))
    open_turn = assemble_written(session.apply_steps(asked, claim_turn()))
    settled = session.apply_steps(asked, claim_turn(), complete_turn("A boat."))
    next_turn = submit_parts("Whose?")
    later = assemble_written(settled.apply_steps(next_turn, claim_turn()))
    for found in (open_turn, later):
        (joined,) = [each for each in found.request.messages if each.media]
        assert joined.content == "The pier is closed." + (f"\n\n{text}" if text else "")
        (media,) = joined.media
        assert joined.content[media.at :] == text
    roles = [each.role for each in later.request.messages]
    assert roles == ["system", "user", "assistant", "user"]


def test_tool_calls_and_their_results_are_messages_of_their_own() -> None:
    called = ChatMessage("assistant", "", (ToolRequest(id="c1", tool="look", arguments="{}"),))
    returned = ChatMessage("tool", "3", tool_call_id="c1")
    for before in (called, returned):
        order = MessageOrder("alternating", [ChatMessage("user", "The fare?"), before])
        assert order.find_joint("assistant") == ""
        assert order.find_joint("tool") == ""
    assert MessageOrder("alternating", [ChatMessage("user", "Hm.")]).find_joint("user")


@pytest.mark.parametrize(
    ("rendering", "roles"),
    [
        (1, ["user", "assistant", "assistant", "user"]),
        (RENDERING_VERSION, ["user", "assistant", "user"]),
    ],
)
def test_turns_are_joined_where_a_prompt_begins_with_them_and_as_recorded_before(
    rendering: int, roles: list[str]
) -> None:
    blueprint = parse_blueprint(WRITTEN.replace("{system: [persona]}, ", ""))
    dialect = RequestDialect(rendering=rendering, roles="alternating")
    session = open_with_blueprint(blueprint, FILES)
    for text, reply in (("The fare?", "Three crowns."), ("", "Four at night.")):
        session = session.apply_steps(submit_turn(text), claim_turn(), complete_turn(reply))
    session = session.apply_steps(submit_turn("And for two?"), claim_turn())
    call = replace(REPLY_CALL, dialect=dialect)
    found = assemble_next_prompt(session, blueprint, FILES, call)
    assert read_prompt(found.manifest, session.events, build_blobs(FILES)) == found.request.messages
    assert [each.role for each in found.request.messages] == roles
