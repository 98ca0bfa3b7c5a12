from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.sessions.prompt_assembly import (
    REPLY_CALL,
    assemble_next_prompt,
    assemble_prompt_from,
    build_blobs,
    fetch_prompt_texts,
    open_with_blueprint,
    parse_blueprint,
)
from turnlog.events.content import compute_digest
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.manifest import HistorySource
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.projections.audit.record.prompt_readback import read_prompt
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.prompt.assemble import assemble, find_missing_turns, plan_prompt
from turnlog.projections.prompt.assembly_inputs import (
    AssembledPrompt,
    PromptNeeds,
    PromptTexts,
    parse_provider,
)
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import CancelTurn, ExcludeTurn
from turnlog.projections.session.evolve import fold_unbounded, fold_with_reach
from turnlog.projections.session.state import FARTHEST_REACH, MAX_RECENT_TURNS
from turnlog.projections.testing import (
    SessionScenario,
    build_exchange,
    claim_turn,
    complete_turn,
    submit_turn,
)

TEXT = """\
blueprint: guide
version: 1
attributes: {city: {type: text}}
layers:
  persona: {file: persona.md, keep: always}
  city: {text: "The city is {city}."}
calls:
  reply:
    messages: [{system: [persona, city]}, {history: recent}, {user: [input]}]
    budget: window
    parameters: {temperature: 0.5}
history: {recent: {}}
budget: {window: {tokens: 30, ladder: [{drop_oldest_pairs: {history: recent}}]}}
profiles: {chat: {default: true, call: reply}}
"""

BLUEPRINT = parse_blueprint(TEXT)

WHOLE = parse_blueprint(
    TEXT.replace("    budget: window\n", "")
    .replace("{recent: {}}", "{recent: {all: true}}")
    .replace("[{drop_oldest_pairs: {history: recent}}]", "[]")
)

FILES = {"persona": "You are a guide."}


def build_session(*turns: tuple[str, str], blueprint: Blueprint = BLUEPRINT) -> SessionScenario:
    session = open_with_blueprint(blueprint, FILES, city="Riga")
    return session.apply_steps(
        *(step for turn in turns for step in build_exchange(*turn)), submit_turn("Go on")
    )


def compute_needs(session: SessionScenario, blueprint: Blueprint = BLUEPRINT) -> PromptNeeds:
    return plan_prompt(SessionMaterial(blueprint=blueprint), session.opened_state, REPLY_CALL).needs


def lacks_turns(session: SessionScenario, blueprint: Blueprint = BLUEPRINT) -> bool:
    state = session.opened_state
    return find_missing_turns(SessionMaterial(blueprint=blueprint), state, REPLY_CALL) is not None


def test_date_in_a_prompt_comes_from_the_recorded_turn_not_the_clock() -> None:
    city, now = 'text: "The city is {city}."', 'now: "{weekday} {date} {time}"'
    blueprint = parse_blueprint(TEXT.replace(city, now))
    session = build_session(blueprint=blueprint)
    state = session.opened_state
    assert state.open
    later = replace(state, open=replace(state.open, released_at="2027-03-04T23:06:07.5Z"))
    assert not REPLY_CALL.at.startswith("2027")
    found = assemble_prompt_from(later, session.events, blueprint, FILES)
    assert found.request.messages[0].content.splitlines()[-1] == "Thursday 2027-03-04 23:06"


def test_plan_needs_only_the_texts_that_its_prompt_includes() -> None:
    session = build_session(("Hi", "Hello"), ("Where?", "There.")).apply_steps(ExcludeTurn(1))
    needs = compute_needs(session)
    assert needs.blobs == (compute_digest("You are a guide."),)
    texts = fetch_prompt_texts(needs, session.events, FILES).by_ref.values()
    assert list(texts) == ["Where?", "There.", "Go on"]


def test_plan_needs_no_text_for_a_layer_whose_condition_is_unmet() -> None:
    text = TEXT.replace("keep: always}", "keep: always, when: first_turn}")
    first = build_session(blueprint=parse_blueprint(text))
    later = build_session(("Hi", "Hello"), blueprint=parse_blueprint(text))
    assert compute_needs(first, parse_blueprint(text)).blobs == (
        compute_digest("You are a guide."),
    )
    assert compute_needs(later, parse_blueprint(text)).blobs == ()
    found = assemble_next_prompt(later, parse_blueprint(text), {})
    assert "You are a guide." not in found.request.messages[0].content


def test_plan_requests_older_turns_only_if_its_window_could_include_them() -> None:
    long = [("x" * 40, "y" * 40)] * 6
    session = build_session(*long)
    assert session.opened_state.earlier
    assert not lacks_turns(session)
    assert lacks_turns(session, WHOLE)
    assert not lacks_turns(build_session(), WHOLE)


def test_excluded_turns_free_room_for_older_turns_which_are_then_requested() -> None:
    session = build_session(*[("x" * 30, "y" * 30)] * 6)
    shorter = session.apply_steps(*(ExcludeTurn(ref.turn) for ref in session.opened_state.turns))
    assert lacks_turns(shorter)
    found = assemble_next_prompt(shorter, BLUEPRINT, FILES)
    assert found.request.messages[1].content == "x" * 30


def test_excluded_turns_split_the_history_parts_at_their_position() -> None:
    turns = [("a", "b")] * 6
    session = build_session(*turns).apply_steps(ExcludeTurn(1), ExcludeTurn(3), ExcludeTurn(4))
    parts = assemble_next_prompt(session, BLUEPRINT, FILES).manifest.parts
    found = [
        (part.source.first, part.source.last, part.treatment, part.message)
        for part in parts
        if isinstance(part.source, HistorySource)
    ]
    assert found == [
        (1, 1, "absent", None),
        (2, 2, "kept", 1),
        (3, 4, "absent", None),
        (5, 6, "kept", 3),
    ]


@pytest.mark.parametrize("missing", ["blobs", "said"])
def test_unfetched_text_raises_corrupt_instead_of_leaving_a_gap(missing: str) -> None:
    session = build_session(("Hi", "Hello"))
    texts = fetch_prompt_texts(compute_needs(session), session.events, FILES)
    less = (
        PromptTexts(blobs={}, by_ref=texts.by_ref)
        if missing == "blobs"
        else PromptTexts(texts.blobs, {})
    )
    with pytest.raises(Corrupt, match="was not fetched"):
        assemble(
            plan_prompt(SessionMaterial(blueprint=BLUEPRINT), session.opened_state, REPLY_CALL),
            less,
        )


def test_over_budget_refusal_lists_layer_sizes_and_a_fix() -> None:
    session = open_with_blueprint(BLUEPRINT, FILES, city="Riga").apply_steps(submit_turn("x" * 200))
    with pytest.raises(Refused) as refusal:
        assemble_next_prompt(session, BLUEPRINT, FILES)
    assert refusal.value.code == "over-budget"
    sizes = "persona 4 (always kept), city 5, input 50 (always kept)"
    assert refusal.value.detail == f"59 tokens do not fit 30: {sizes}"
    assert refusal.value.fix == "shorten the input or raise the budget by 29 tokens"


def test_over_budget_refusal_lists_a_history_without_a_ladder_step() -> None:
    rigid = parse_blueprint(TEXT.replace("[{drop_oldest_pairs: {history: recent}}]", "[]"))
    with pytest.raises(Refused) as refusal:
        assemble_next_prompt(build_session(("x" * 40, "y" * 40), blueprint=rigid), rigid, FILES)
    sizes = "persona 4 (always kept), city 5, history 20, input 2 (always kept)"
    assert refusal.value.detail == f"31 tokens do not fit 30: {sizes}"


def test_request_has_the_parameters_of_its_call() -> None:
    found = assemble_next_prompt(build_session(), BLUEPRINT, FILES)
    assert found.request.parameters == {"temperature": 0.5}


def test_request_digest_covers_everything_sent_to_the_model() -> None:
    request = assemble_next_prompt(build_session(), BLUEPRINT, FILES).request
    others = [
        replace(request, model="openai/other"),
        replace(request, parameters={"temperature": 0.6}),
        replace(request, messages=request.messages[:1]),
        replace(request, tools=({"name": "t"},)),
    ]
    assert len({request.digest, *(other.digest for other in others)}) == 5


def test_request_digest_is_computed_from_the_canonical_form() -> None:
    request = assemble_next_prompt(
        open_with_blueprint(BLUEPRINT, {}, city="Rīga").apply_steps(submit_turn("Go")),
        BLUEPRINT,
        {},
    )
    assert request.request.digest == compute_digest(
        '{"messages":[{"content":"The city is Rīga.","role":"system"},'
        '{"content":"Go","role":"user"}],"model":"openai/test",'
        '"parameters":{"temperature":0.5},"tools":[]}'
    )


def test_slot_values_are_not_expanded_again() -> None:
    session = open_with_blueprint(BLUEPRINT, FILES, city="{city} {persona}").apply_steps(
        submit_turn("Go")
    )
    assert (
        "The city is {city} {persona}."
        in assemble_next_prompt(session, BLUEPRINT, FILES).request.messages[0].content
    )


def test_a_slot_without_a_value_is_empty() -> None:
    session = open_with_blueprint(BLUEPRINT, FILES).apply_steps(submit_turn("Go"))
    assert (
        assemble_next_prompt(session, BLUEPRINT, FILES)
        .request.messages[0]
        .content.endswith("The city is .")
    )


def test_prompt_files_of_another_provider_are_not_used() -> None:
    session = build_session()
    call = replace(REPLY_CALL, model="gemini/x")
    assert (
        plan_prompt(SessionMaterial(blueprint=BLUEPRINT), session.opened_state, call).needs.blobs
        == ()
    )


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("gpt-x", "openai"),
        ("openai/gpt-x", "openai"),
        ("gemini/a/b", "gemini"),
        ("scripted/demo", "scripted"),
    ],
)
def test_provider_is_parsed_from_the_model_name(model: str, provider: str) -> None:
    assert parse_provider(model) == provider


def test_cancelled_turn_is_not_in_the_window() -> None:
    session = open_with_blueprint(BLUEPRINT, FILES, city="Riga").apply_steps(
        submit_turn("No"), CancelTurn(), submit_turn("Yes")
    )
    texts = [
        m.content for m in assemble_next_prompt(session, BLUEPRINT, FILES).request.messages[1:]
    ]
    assert texts == ["Yes"]


def test_session_of_many_short_turns_needs_only_its_recent_turns() -> None:
    roomy = parse_blueprint(TEXT.replace("tokens: 30", "tokens: 8000"))
    session = build_session(*[("a", "b")] * (MAX_RECENT_TURNS + 2), blueprint=roomy)
    assert not lacks_turns(session, roomy)
    assert not lacks_turns(session.apply_steps(ExcludeTurn(MAX_RECENT_TURNS)), roomy)
    found = assemble_next_prompt(session, roomy, FILES)
    full_state = fold_unbounded(session.events)
    assert full_state is not None
    again = assemble_prompt_from(full_state, session.events, roomy, FILES)
    assert again == found
    (far, near) = [p for p in found.manifest.parts if isinstance(p.source, HistorySource)]
    assert (far.source, far.treatment) == (HistorySource(view="recent", first=1, last=2), "dropped")
    assert near.source == HistorySource(view="recent", first=3, last=MAX_RECENT_TURNS + 2)


def test_recent_turns_yield_the_same_prompt_as_the_complete_session() -> None:
    roomy = parse_blueprint(TEXT.replace("tokens: 30", "tokens: 8000"))
    session = build_session(*[("a", "b")] * (MAX_RECENT_TURNS + 20), blueprint=roomy).apply_steps(
        *(ExcludeTurn(turn) for turn in (3, 40, MAX_RECENT_TURNS))
    )
    whole = fold_unbounded(session.events)
    latest = fold_with_reach(session.events, FARTHEST_REACH)
    assert whole
    assert latest
    assert (len(whole.turns), len(latest.turns)) == (MAX_RECENT_TURNS + 20, MAX_RECENT_TURNS)
    found = assemble_prompt_from(latest, session.events, roomy, FILES)
    assert found == assemble_prompt_from(whole, session.events, roomy, FILES)


def test_view_of_the_whole_history_includes_every_turn() -> None:
    session = build_session(*[("a", "b")] * (MAX_RECENT_TURNS + 2), blueprint=WHOLE)
    found = assemble_next_prompt(session, WHOLE, FILES)
    assert len(found.request.messages) == 2 * (MAX_RECENT_TURNS + 2) + 2


def test_first_turn_condition_holds_until_a_turn_is_answered() -> None:
    greeting = parse_blueprint(
        TEXT.replace('"The city is {city}."', "Greet them., when: first_turn")
    )
    failed = open_with_blueprint(greeting, FILES).apply_steps(
        submit_turn("Hm"), CancelTurn(), submit_turn("Hi")
    )
    assert "Greet them." in get_system_text(assemble_next_prompt(failed, greeting, FILES))
    answered = build_session(("Hi", "Hello"), blueprint=greeting)
    assert "Greet them." not in get_system_text(assemble_next_prompt(answered, greeting, FILES))


def get_system_text(found: AssembledPrompt) -> str:
    return found.request.messages[0].content


def test_turn_without_input_is_a_single_message_of_the_history() -> None:
    session = open_with_blueprint(BLUEPRINT, FILES, city="Riga").apply_steps(
        TurnSubmitted(turn=1), claim_turn(), complete_turn("Hello"),
        *build_exchange("a", "b"), *build_exchange("c", "d"), ExcludeTurn(2), submit_turn("Go on"),
    )  # fmt: skip
    found = assemble_next_prompt(session, BLUEPRINT, FILES)
    runs = [p for p in found.manifest.parts if isinstance(p.source, HistorySource) and p.role]
    assert [(part.role, part.message) for part in runs] == [("assistant", 1), ("user", 2)]
    assert found.request.messages[2].content == "c"
    assert read_prompt(found.manifest, session.events, build_blobs(FILES)) == found.request.messages
