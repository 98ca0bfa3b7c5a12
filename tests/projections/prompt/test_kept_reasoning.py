"""What a model reasoned before the replies of earlier turns, in histories that keep it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sessions.prompt_assembly import (
    REPLY_CALL,
    assemble_next_prompt,
    build_blobs,
    open_with_blueprint,
    parse_blueprint,
)
from turnlog.events.errors import Refused
from turnlog.events.model.manifest import EventTextSource, HistorySource, PromptPart, RequestDialect
from turnlog.events.recorded_reasoning import REPLY_REASONING_FIELD
from turnlog.events.tokens import ToolRequest
from turnlog.projections.audit.record.prompt_readback import read_prompt
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt, PromptCall
from turnlog.projections.prompt.planned_reasoning import SIGNED_RULE
from turnlog.projections.prompt.request_dialect import RENDERING_VERSION
from turnlog.projections.session.commands import (
    CompleteTurn,
    ExcludeTurn,
    FixContext,
    RestoreTurn,
    SubmitTurn,
)
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.projections.testing import (
    SAMPLE_SPENT,
    STATE_ADAPTER,
    CommandOrFactory,
    SessionScenario,
    claim_turn,
    get_attempt,
)
from turnlog.services.bundle.verifier import EventChain, rebuild_messages
from turnlog.services.cli.views.prompt_view import split_prompt

WRITTEN = """\
blueprint: guide
version: 1
layers:
  persona: {file: persona.md}
calls:
  reply:
    messages: [{system: [persona]}, {history: recent}, {user: [input]}]
    cache: auto
history: {recent: {reasoning: keep}}
profiles: {chat: {default: true, call: reply}}
"""

KEEPING = parse_blueprint(WRITTEN)

KEEPING_ALL = parse_blueprint(WRITTEN.replace("keep}", "keep_all}"))

PLAIN = parse_blueprint(WRITTEN.replace("{reasoning: keep}", "{}"))

CONDENSING = parse_blueprint(WRITTEN.replace("keep}", "keep, condense: repeats}"))

FILES = {"persona": "You are a guide."}

THOUGHT = json.dumps({"reasoning_content": "The tide is low at ten."})


SIGNAL = ToolRequest(id="call_1", tool="transition_phase", arguments="{}")


def answer_turn(
    text: str, reasoning: str = "", tools: tuple[ToolRequest, ...] = (), raw: str | None = None
) -> CommandOrFactory:
    return lambda state: CompleteTurn(
        attempt=get_attempt(state),
        text=text,
        finish="stop",
        spent=SAMPLE_SPENT,
        reasoning=reasoning,
        tools=tools,
        raw=raw,
    )


def run_turn(
    session: SessionScenario,
    reasoning: str = "",
    *,
    text: str = "May I sail?",
    reply: str = "Yes.",
    blueprint: Blueprint = KEEPING,
    call: PromptCall = REPLY_CALL,
    tools: tuple[ToolRequest, ...] = (),
    raw: str | None = None,
) -> SessionScenario:
    """Submit a turn, record its prompt, and answer it with what was reasoned."""
    claimed = session.apply_steps(SubmitTurn(text=text, policies=Policies()), claim_turn())
    found = assemble_next_prompt(claimed, blueprint, FILES, call)
    fixed = FixContext(
        attempt=get_attempt(claimed.opened_state),
        model=call.model,
        parameters={},
        manifest=found.manifest,
    )
    return claimed.apply_steps(fixed, answer_turn(reply, reasoning, tools, raw))


def run_turns(*reasoned: str, blueprint: Blueprint = KEEPING) -> SessionScenario:
    session = open_with_blueprint(blueprint, FILES)
    for number, each in enumerate(reasoned, 1):
        session = run_turn(session, each, reply=f"Yes, {number} times.", blueprint=blueprint)
    return session


def assemble_later(
    session: SessionScenario, blueprint: Blueprint = KEEPING, call: PromptCall = REPLY_CALL
) -> AssembledPrompt:
    """Assemble the prompt of one more turn, and require that all three readers rebuild it."""
    asked = SubmitTurn(text="And at eleven?", policies=Policies())
    session = session.apply_steps(asked, claim_turn())
    found = assemble_next_prompt(session, blueprint, FILES, call)
    messages = found.request.messages
    assert read_prompt(found.manifest, session.events, build_blobs(FILES)) == messages
    chain, first = EventChain(), session.events[0]
    chain.read_lines([each.stored for each in session.events], first.tenant, first.session)
    blobs = {digest: text.encode() for digest, text in build_blobs(FILES).items()}
    plain = found.manifest.model_dump(mode="json", exclude_defaults=True)
    assert rebuild_messages(plain, chain, blobs) == [each.encode_plain() for each in messages]
    spans = split_prompt(messages, found.manifest)
    shown = [each.text for each in spans if each.part.role == "reasoning"]
    assert shown == [each.reasoning for each in messages if each.reasoning]
    return found


def list_reasoning(found: AssembledPrompt) -> list[str]:
    return [each.reasoning for each in found.request.messages if each.role == "assistant"]


def list_parts(found: AssembledPrompt) -> list[PromptPart]:
    return [part for part in found.manifest.parts if part.layer == "reasoning"]


def test_history_that_keeps_reasoning_sends_it_back_beside_the_reply() -> None:
    session = run_turns(THOUGHT, "", THOUGHT)
    found = assemble_later(session)
    assert list_reasoning(found) == [THOUGHT, "", THOUGHT]
    reply = found.request.messages[2].encode_plain()
    assert (reply["content"], reply["reasoning_content"]) == (
        "Yes, 1 times.",
        "The tide is low at ten.",
    )
    parts = list_parts(found)
    assert [(part.component, part.role, part.message) for part in parts] == [
        ("reasoning", "reasoning", 2),
        ("reasoning", "reasoning", 6),
    ]
    assert all(part.tokens and part.is_reply_reasoning for part in parts)
    assert found.manifest.tokens == sum(part.tokens for part in found.manifest.parts)


def test_history_without_the_word_neither_reads_nor_sends_reasoning() -> None:
    found = assemble_later(run_turns(THOUGHT, blueprint=PLAIN), PLAIN)
    assert list_reasoning(found) == [""]
    assert list_parts(found) == []
    silent = assemble_later(run_turns("", blueprint=PLAIN), PLAIN)
    assert found.request.messages == silent.request.messages


def test_another_model_is_sent_none() -> None:
    other = replace(REPLY_CALL, model="openai/other")
    found = assemble_later(run_turns(THOUGHT), call=other)
    assert (list_reasoning(found), list_parts(found)) == ([""], [])


@pytest.mark.parametrize("mark", [{"cut": {"of": 90, "to": 24}}, {"withheld": "secrets"}])
def test_reasoning_that_is_not_recorded_whole_is_left_out_and_the_manifest_says_why(
    mark: dict[str, object],
) -> None:
    found = assemble_later(run_turns(json.dumps({"reasoning_content": "Low.", **mark})))
    assert list_reasoning(found) == [""]
    (part,) = list_parts(found)
    assert (part.treatment, part.rule) == ("dropped", "not recorded whole")
    assert part.source is not None
    assert (part.message, part.source.model_dump()["field"]) == (None, REPLY_REASONING_FIELD)


def run_signalling_turns(*reasoned: str, blueprint: Blueprint = KEEPING_ALL) -> SessionScenario:
    """Answer turns with replies that come with a tool call, then one that comes alone."""
    session = open_with_blueprint(blueprint, FILES)
    for number, each in enumerate(reasoned, 1):
        reply = f"Go on, {number} times."
        session = run_turn(session, each, reply=reply, blueprint=blueprint, tools=(SIGNAL,))
    return run_turn(session, THOUGHT, blueprint=blueprint)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_history_that_keeps_all_reasoning_sends_that_before_a_reply_with_tool_calls(
    name: str,
) -> None:
    thought = json.dumps({name: "The harbour is next."})
    found = assemble_later(run_signalling_turns(thought, ""), KEEPING_ALL)
    assert list_reasoning(found) == [thought, "", THOUGHT]
    first, last = list_parts(found)
    assert (first.message, last.message) == (2, 6)
    assert isinstance(first.source, EventTextSource)
    assert (first.source.field, first.source.reply_of) == ("reasoning", 1)
    assert first.is_reply_reasoning
    assert found.manifest.tokens == sum(part.tokens for part in found.manifest.parts)
    assert not any(each.tool_calls for each in found.request.messages)


def test_history_that_keeps_reasoning_has_none_before_a_reply_with_tool_calls() -> None:
    session = run_signalling_turns(THOUGHT, blueprint=KEEPING)
    found = assemble_later(session)
    assert list_reasoning(found) == ["", THOUGHT]
    assert len(list_parts(found)) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"thinking_blocks": [{"type": "thinking", "thinking": "Next.", "signature": "sig"}]},
        {"reasoning_content": "Next.", "thinking_blocks": [{"type": "redacted_thinking"}]},
        {"reasoning_items": [{"type": "reasoning", "id": "rs_1", "encrypted_content": "x"}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "abc"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Next."}]}]},
    ],
)
def test_reasoning_that_may_be_signed_with_calls_is_left_out_and_the_manifest_says_why(
    fields: dict[str, object],
) -> None:
    found = assemble_later(run_signalling_turns(json.dumps(fields)), KEEPING_ALL)
    assert list_reasoning(found) == ["", THOUGHT]
    dropped, kept = list_parts(found)
    assert (dropped.treatment, dropped.rule) == ("dropped", SIGNED_RULE)
    assert (dropped.message, kept.treatment) == (None, "kept")


def test_reasoning_before_a_repaired_reply_with_tool_calls_is_kept() -> None:
    session = run_turn(
        open_with_blueprint(KEEPING_ALL, FILES),
        THOUGHT,
        blueprint=KEEPING_ALL,
        tools=(SIGNAL,),
        raw="Yes .",
    )
    found = assemble_later(session, KEEPING_ALL)
    assert list_reasoning(found) == [THOUGHT]
    (part,) = list_parts(found)
    assert isinstance(part.source, EventTextSource)
    assert (part.source.field, part.source.reply_of) == ("reasoning", 1)


def test_reasoning_before_a_reply_with_tool_calls_goes_with_a_redaction_and_a_budget() -> None:
    session = run_signalling_turns(THOUGHT, THOUGHT)
    redacted = session.apply_steps(
        RedactReply(turn=1, reason="wrong", rule="asked", replacement="(withheld)")
    )
    assert list_reasoning(assemble_later(redacted, KEEPING_ALL)) == ["", THOUGHT, THOUGHT]
    whole = assemble_later(session, KEEPING_ALL).manifest.tokens
    text = WRITTEN.replace("cache: auto", "budget: window").replace("keep}", "keep_all}")
    limits = f"budget: {{window: {{tokens: {whole - 1}, ladder: [drop_oldest_pairs: {{}}]}}}}\n"
    shorter = assemble_later(session, parse_blueprint(text + limits))
    assert list_reasoning(shorter) == ["", THOUGHT, THOUGHT]
    assert [each.step for each in shorter.manifest.steps] == ["drop_reasoning"]


def test_redacted_and_excluded_turns_send_none() -> None:
    session = run_turns(THOUGHT, THOUGHT)
    redacted = session.apply_steps(
        RedactReply(turn=1, reason="wrong", rule="asked", replacement="(withheld)")
    )
    assert list_reasoning(assemble_later(redacted)) == ["", THOUGHT]
    excluded = session.apply_steps(ExcludeTurn(1))
    assert list_reasoning(assemble_later(excluded)) == [THOUGHT]
    restored = excluded.apply_steps(RestoreTurn(1))
    assert list_reasoning(assemble_later(restored)) == [THOUGHT, THOUGHT]


def test_condensed_turns_send_none() -> None:
    session = open_with_blueprint(CONDENSING, FILES)
    for number in range(5):
        asked = f"Which boats sail after the storm at {number}:30 today?"
        session = run_turn(
            session, THOUGHT, text=asked, reply=f"{number} boats sail.", blueprint=CONDENSING
        )
    assert list_reasoning(assemble_later(session, CONDENSING)) == ["", THOUGHT]


def test_reply_with_reasoning_is_joined_to_no_other() -> None:
    alternating = replace(
        REPLY_CALL, dialect=RequestDialect(rendering=RENDERING_VERSION, roles="alternating")
    )
    for first, second in ((THOUGHT, ""), ("", THOUGHT)):
        session = run_turn(open_with_blueprint(KEEPING, FILES), first, call=alternating)
        session = run_turn(session, second, text="", call=alternating)
        found = assemble_later(session, call=alternating)
        assert list_reasoning(found) == [first, second]
        assert sum(isinstance(part.source, HistorySource) for part in found.manifest.parts) == 1
    session = run_turn(run_turn(open_with_blueprint(KEEPING, FILES), call=alternating))
    session = run_turn(session.apply_steps(ExcludeTurn(2)), THOUGHT, text="", call=alternating)
    assert list_reasoning(assemble_later(session, call=alternating)) == ["", THOUGHT]
    silent = run_turn(open_with_blueprint(KEEPING, FILES), call=alternating)
    silent = run_turn(silent, text="", call=alternating)
    assert list_reasoning(assemble_later(silent, call=alternating)) == [""]


def test_cache_prefix_ends_where_reasoning_is_no_longer_sent() -> None:
    session = run_turns(THOUGHT, THOUGHT)
    prefix = assemble_later(session).manifest.prefix
    assert prefix is not None
    assert (prefix.messages, prefix.ended_by) == (4, None)
    other = replace(REPLY_CALL, model="openai/other")
    prefix = assemble_later(session, call=other).manifest.prefix
    assert prefix is not None
    assert (prefix.messages, prefix.ended_by) == (2, "history")


def test_cache_is_marked_up_to_the_question_of_a_reply_with_reasoning() -> None:
    marking = replace(
        REPLY_CALL, dialect=RequestDialect(rendering=RENDERING_VERSION, cache_marks="anthropic")
    )
    assert assemble_later(run_turns(THOUGHT), call=marking).manifest.cache_marks == (0, 1)
    assert assemble_later(run_turns(THOUGHT, ""), call=marking).manifest.cache_marks == (0, 4)


def test_snapshot_of_a_state_keeps_where_reasoning_is() -> None:
    session = run_turns(THOUGHT, "")
    state = session.opened_state
    assert STATE_ADAPTER.validate_json(STATE_ADAPTER.dump_json(state)) == state
    reasoned, silent = state.turns
    assert reasoned.reasoning is not None
    assert reasoned.reasoning.model == REPLY_CALL.model
    assert silent.reasoning is None


def limit_tokens(tokens: int, component: str = "") -> Blueprint:
    limits = f"tokens: {tokens}, ladder: [drop_oldest_pairs: {{}}]"
    if component:
        limits = f"tokens: 99999, components: {{{component}: {{tokens: {tokens}, ladder: []}}}}"
    text = WRITTEN.replace("cache: auto", "budget: window")
    return parse_blueprint(f"{text}budget: {{window: {{{limits}}}}}\n")


def test_oldest_reasoning_is_left_out_before_any_turn() -> None:
    session = run_turns(THOUGHT, THOUGHT, THOUGHT)
    whole = assemble_later(session).manifest.tokens
    shorter = assemble_later(session, limit_tokens(whole - 1))
    assert list_reasoning(shorter) == ["", THOUGHT, THOUGHT]
    (step,) = shorter.manifest.steps
    assert (step.step, step.on, step.before) == ("drop_reasoning", "reasoning", whole)
    assert (step.after, shorter.manifest.tokens) == (shorter.manifest.tokens, step.after)
    silent = assemble_later(run_turns("", "", "")).manifest.tokens
    shortest = assemble_later(session, limit_tokens(silent - 1))
    assert list_reasoning(shortest) == ["", ""]
    assert [each.step for each in shortest.manifest.steps] == [
        "drop_reasoning",
        "drop_oldest_pairs",
    ]


def test_component_limits_the_reasoning_alone() -> None:
    session = run_turns(THOUGHT, THOUGHT)
    own = sum(part.tokens for part in list_parts(assemble_later(session)))
    limited = assemble_later(session, limit_tokens(own - 1, "reasoning"))
    assert list_reasoning(limited) == ["", THOUGHT]


@settings(max_examples=20, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 60), min_size=1, max_size=6),
    tokens=st.integers(12, 160),
)
def test_parts_add_up_to_no_more_than_the_budget(lengths: list[int], tokens: int) -> None:
    reasoned = (json.dumps({"reasoning_content": "ab " * each}) if each else "" for each in lengths)
    blueprint = limit_tokens(tokens)
    try:
        found = assemble_later(run_turns(*reasoned, blueprint=blueprint), blueprint)
    except Refused as refusal:
        assert refusal.code == "over-budget"  # noqa: PT017 - a budget may be too small for any turn
        return
    assert found.manifest.tokens == sum(part.tokens for part in found.manifest.parts) <= tokens
    texts = list_reasoning(found)
    assert all(texts[at:] for at, each in enumerate(texts) if each)


def test_wrong_word_is_explained() -> None:
    with pytest.raises(FaultyBlueprint) as caught:
        parse_blueprint(WRITTEN.replace("reasoning: keep", "reasoning: kept"))
    assert "keep" in str(caught.value)
    assert "history.recent.reasoning" in str(caught.value)
