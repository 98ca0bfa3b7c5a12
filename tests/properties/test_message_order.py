"""Any prompt, written for any order of roles, obeys it, loses no text, and is read back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.suite_extent import choose_examples
from tests.support.generators.blueprint_strategies import BlueprintVariant, draw_variants
from tests.support.generators.session_strategies import continue_session, draw_requests
from tests.support.sessions.prompt_assembly import (
    REPLY_CALL,
    assemble_next_prompt,
    build_blobs,
    open_with_blueprint,
)
from tests.support.sessions.role_orders import find_role_fault
from turnlog.events.model.manifest import RequestDialect, RoleOrder
from turnlog.projections.audit.record.prompt_readback import read_prompt
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.projections.prompt.message_order import OPENING_TEXT
from turnlog.projections.prompt.request_dialect import RENDERING_VERSION
from turnlog.projections.testing import SessionScenario, submit_turn
from turnlog.services.bundle.verifier import EventChain, rebuild_messages
from turnlog.services.cli.views.prompt_view import split_prompt

ORDERS: tuple[RoleOrder, ...] = ("system_first", "alternating")

UNLIMITED = st.none()

few = settings(max_examples=choose_examples(15))


@dataclass(frozen=True, slots=True, repr=False)
class OrderedPrompt:
    """The prompt of a session's next call, as it is and as it is written for a server."""

    variant: BlueprintVariant
    session: SessionScenario
    roles: RoleOrder
    plain: AssembledPrompt
    written: AssembledPrompt


@st.composite
def draw_ordered_prompt(draw: st.DrawFn) -> OrderedPrompt:
    variant, roles = draw(draw_variants(budgets=UNLIMITED)), draw(st.sampled_from(ORDERS))
    session = open_with_blueprint(variant.blueprint, variant.files, **variant.attributes)
    session = continue_session(session, draw(draw_requests()))
    if session.opened_state.open is None:
        session = session.apply_steps(submit_turn(draw(st.text("ab", max_size=20))))
    dialect = RequestDialect(rendering=RENDERING_VERSION, roles=roles)
    call = replace(REPLY_CALL, dialect=dialect)
    plain = assemble_next_prompt(session, variant.blueprint, variant.files)
    written = assemble_next_prompt(session, variant.blueprint, variant.files, call)
    return OrderedPrompt(variant, session, roles, plain, written)


@pytest.mark.slow("many generated sessions are tried")
@settings(max_examples=choose_examples(40))
@given(draw_ordered_prompt())
def test_any_prompt_obeys_the_order_of_roles_that_a_server_takes(case: OrderedPrompt) -> None:
    sent = [each.encode_plain() for each in case.written.request.messages]
    assert find_role_fault(sent, case.roles) is None


@few
@given(draw_ordered_prompt())
def test_no_text_is_lost_or_moved_whatever_order_a_server_takes(case: OrderedPrompt) -> None:
    sent = "\n\n".join(each.content for each in case.written.request.messages)
    opened = any(each.content == OPENING_TEXT for each in case.written.request.messages)
    texts = [each.content for each in case.plain.request.messages]
    expected = "\n\n".join(texts)
    assert sent.replace(f"{OPENING_TEXT}\n\n", "", 1) == expected if opened else sent == expected
    parts = [part for part in case.written.manifest.parts if part.message is not None]
    characters = sum(len(each.content) for each in case.written.request.messages)
    assert sum(part.characters for part in parts) == characters
    assert case.written.manifest.tokens == case.plain.manifest.tokens


@few
@given(draw_ordered_prompt())
def test_prompt_in_any_order_is_read_back_by_both_verifiers(case: OrderedPrompt) -> None:
    manifest, messages = case.written.manifest, case.written.request.messages
    blobs = build_blobs(case.variant.files)
    assert read_prompt(manifest, case.session.events, blobs) == messages
    first = case.session.events[0]
    chain = EventChain()
    chain.read_lines([each.stored for each in case.session.events], first.tenant, first.session)
    encoded = {digest: text.encode() for digest, text in blobs.items()}
    rebuilt = rebuild_messages(
        manifest.model_dump(mode="json", exclude_defaults=True), chain, encoded
    )
    assert rebuilt == [each.encode_plain() for each in messages]


@few
@given(draw_ordered_prompt())
def test_each_part_names_the_message_that_its_text_was_sent_in(case: OrderedPrompt) -> None:
    messages = case.written.request.messages
    for part in case.written.manifest.parts:
        if part.message is not None and part.role is not None:
            assert part.role == messages[part.message].role


@few
@given(draw_ordered_prompt())
def test_prompt_in_any_order_is_shown_part_by_part(case: OrderedPrompt) -> None:
    messages = case.written.request.messages
    spans = split_prompt(messages, case.written.manifest)
    for place, message in enumerate(messages):
        shown = [each.text for each in spans if each.message_index == place]
        assert "".join(shown) == message.content
