from __future__ import annotations

from dataclasses import replace

import pytest

from tests.parts.windows import (
    CALL,
    assembled,
    assembled_from,
    blobs_of,
    blueprint_of,
    fetched,
    opened_by,
)
from turnlog.events.content import digest_of
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.manifest import FromTurns
from turnlog.events.turn import TurnSubmitted
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.session.commands import CancelTurn, ExcludeTurn
from turnlog.projections.session.evolve import fold_whole
from turnlog.projections.session.state import MOST_RECENT
from turnlog.projections.testing import Given, answering, claiming, exchange, saying
from turnlog.projections.window.assemble import assemble, needs
from turnlog.projections.window.call import Assembled, Needs, Texts, provider_of
from turnlog.projections.window.material import Material
from turnlog.projections.window.readback import read_back

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
BLUEPRINT = blueprint_of(TEXT)
WHOLE = blueprint_of(
    TEXT.replace("    budget: window\n", "")
    .replace("{recent: {}}", "{recent: {all: true}}")
    .replace("[{drop_oldest_pairs: {history: recent}}]", "[]")
)
FILES = {"persona": "You are a guide."}


def talked(*turns: tuple[str, str], blueprint: Blueprint = BLUEPRINT) -> Given:
    session = opened_by(blueprint, FILES, city="Riga")
    return session.later(*(step for turn in turns for step in exchange(*turn)), saying("Go on"))


def needed(session: Given, blueprint: Blueprint = BLUEPRINT) -> Needs:
    return needs(Material(blueprint), session.opened, CALL)


def test_a_call_needs_the_texts_it_shows_and_no_others() -> None:
    session = talked(("Hi", "Hello"), ("Where?", "There.")).later(ExcludeTurn(1))
    asked = needed(session)
    assert asked.blobs == (digest_of("You are a guide."),)
    texts = fetched(asked, session.events, FILES).said.values()
    assert list(texts) == ["Where?", "There.", "Go on"]


def test_a_call_asks_for_older_turns_only_when_it_could_show_them() -> None:
    long = [("x" * 40, "y" * 40)] * 6
    session = talked(*long)
    assert session.opened.earlier
    assert not needed(session).older
    assert needed(session, WHOLE).older
    assert not needed(talked(), WHOLE).older


def test_turns_left_out_make_room_for_older_ones_which_are_then_asked_for() -> None:
    session = talked(*[("x" * 30, "y" * 30)] * 6)
    shorter = session.later(*(ExcludeTurn(ref.turn) for ref in session.opened.turns))
    assert needed(shorter).older
    found = assembled(shorter, BLUEPRINT, FILES)
    assert found.request.messages[1].content == "x" * 30


def test_what_is_left_out_parts_the_history_where_it_stood() -> None:
    turns = [("a", "b")] * 6
    session = talked(*turns).later(ExcludeTurn(1), ExcludeTurn(3), ExcludeTurn(4))
    parts = assembled(session, BLUEPRINT, FILES).manifest.parts
    found = [
        (part.source.first, part.source.last, part.treatment, part.message)
        for part in parts
        if isinstance(part.source, FromTurns)
    ]
    assert found == [
        (1, 1, "absent", None),
        (2, 2, "kept", 1),
        (3, 4, "absent", None),
        (5, 6, "kept", 3),
    ]


@pytest.mark.parametrize("missing", ["blobs", "said"])
def test_a_text_that_was_not_fetched_is_an_error_and_never_a_hole(missing: str) -> None:
    session = talked(("Hi", "Hello"))
    texts = fetched(needed(session), session.events, FILES)
    less = Texts(blobs={}, said=texts.said) if missing == "blobs" else Texts(texts.blobs, {})
    with pytest.raises(Corrupt, match="was not fetched"):
        assemble(Material(BLUEPRINT), session.opened, CALL, less)


def test_what_does_not_fit_is_named_with_its_size_and_the_way_out() -> None:
    session = opened_by(BLUEPRINT, FILES, city="Riga").later(saying("x" * 200))
    with pytest.raises(Refused) as refusal:
        assembled(session, BLUEPRINT, FILES)
    assert refusal.value.code == "over-budget"
    sizes = "persona 4 (always kept), city 5, input 50 (always kept)"
    assert refusal.value.detail == f"59 tokens do not fit 30: {sizes}"
    assert refusal.value.fix == "shorten the input or raise the budget by 29 tokens"


def test_a_history_that_may_not_be_cut_is_named_too() -> None:
    rigid = blueprint_of(TEXT.replace("[{drop_oldest_pairs: {history: recent}}]", "[]"))
    with pytest.raises(Refused) as refusal:
        assembled(talked(("x" * 40, "y" * 40), blueprint=rigid), rigid, FILES)
    sizes = "persona 4 (always kept), city 5, history 20, input 2 (always kept)"
    assert refusal.value.detail == f"31 tokens do not fit 30: {sizes}"


def test_parameters_of_the_call_go_with_the_request() -> None:
    found = assembled(talked(), BLUEPRINT, FILES)
    assert found.request.parameters == {"temperature": 0.5}


def test_the_digest_covers_everything_the_model_is_sent() -> None:
    request = assembled(talked(), BLUEPRINT, FILES).request
    others = [
        replace(request, model="openai/other"),
        replace(request, parameters={"temperature": 0.6}),
        replace(request, messages=request.messages[:1]),
        replace(request, tools=({"name": "t"},)),
    ]
    assert len({request.digest, *(other.digest for other in others)}) == 5


def test_the_digest_is_that_of_the_canonical_form() -> None:
    request = assembled(opened_by(BLUEPRINT, {}, city="Rīga").later(saying("Go")), BLUEPRINT, {})
    assert request.request.digest == digest_of(
        '{"messages":[{"content":"The city is Rīga.","role":"system"},'
        '{"content":"Go","role":"user"}],"model":"openai/test",'
        '"parameters":{"temperature":0.5},"tools":[]}'
    )


def test_slots_are_filled_once_and_never_from_what_filled_them() -> None:
    session = opened_by(BLUEPRINT, FILES, city="{city} {persona}").later(saying("Go"))
    assert (
        "The city is {city} {persona}."
        in assembled(session, BLUEPRINT, FILES).request.messages[0].content
    )


def test_a_slot_without_a_value_is_empty() -> None:
    session = opened_by(BLUEPRINT, FILES).later(saying("Go"))
    assert (
        assembled(session, BLUEPRINT, FILES).request.messages[0].content.endswith("The city is .")
    )


def test_prompts_of_another_provider_are_not_those_of_this_one() -> None:
    session = talked()
    call = replace(CALL, model="gemini/x", provider="gemini")
    assert needs(Material(BLUEPRINT), session.opened, call).blobs == ()


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("gpt-x", "openai"),
        ("openai/gpt-x", "openai"),
        ("gemini/a/b", "gemini"),
        ("scripted/demo", "scripted"),
    ],
)
def test_a_model_names_its_provider(model: str, provider: str) -> None:
    assert provider_of(model) == provider


def test_a_cancelled_turn_takes_no_place_in_the_window() -> None:
    session = opened_by(BLUEPRINT, FILES, city="Riga").later(
        saying("No"), CancelTurn(), saying("Yes")
    )
    said = [m.content for m in assembled(session, BLUEPRINT, FILES).request.messages[1:]]
    assert said == ["Yes"]


def test_a_session_of_many_short_turns_needs_no_more_than_it_keeps() -> None:
    roomy = blueprint_of(TEXT.replace("tokens: 30", "tokens: 8000"))
    session = talked(*[("a", "b")] * (MOST_RECENT + 2), blueprint=roomy)
    assert not needed(session, roomy).older
    assert not needed(session.later(ExcludeTurn(MOST_RECENT)), roomy).older
    found = assembled(session, roomy, FILES)
    whole = fold_whole(session.events)
    assert whole is not None
    again = assembled_from(whole, session.events, roomy, FILES)
    assert again == found
    (far, near) = [p for p in found.manifest.parts if isinstance(p.source, FromTurns)]
    assert (far.source, far.treatment) == (FromTurns(view="recent", first=1, last=2), "dropped")
    assert near.source == FromTurns(view="recent", first=3, last=MOST_RECENT + 2)


def test_a_view_of_the_whole_history_shows_every_turn_of_it() -> None:
    session = talked(*[("a", "b")] * (MOST_RECENT + 2), blueprint=WHOLE)
    found = assembled(session, WHOLE, FILES)
    assert len(found.request.messages) == 2 * (MOST_RECENT + 2) + 2


def test_the_first_turn_lasts_until_one_is_answered() -> None:
    greeting = blueprint_of(TEXT.replace('"The city is {city}."', "Greet them., when: first_turn"))
    failed = opened_by(greeting, FILES).later(saying("Hm"), CancelTurn(), saying("Hi"))
    assert "Greet them." in system_of(assembled(failed, greeting, FILES))
    answered = talked(("Hi", "Hello"), blueprint=greeting)
    assert "Greet them." not in system_of(assembled(answered, greeting, FILES))


def system_of(found: Assembled) -> str:
    return found.request.messages[0].content


def test_a_turn_that_began_by_itself_is_one_message_of_the_history() -> None:
    session = opened_by(BLUEPRINT, FILES, city="Riga").later(
        TurnSubmitted(turn=1), claiming(), answering("Hello"),
        *exchange("a", "b"), *exchange("c", "d"), ExcludeTurn(2), saying("Go on"),
    )  # fmt: skip
    found = assembled(session, BLUEPRINT, FILES)
    runs = [p for p in found.manifest.parts if isinstance(p.source, FromTurns) and p.role]
    assert [(part.role, part.message) for part in runs] == [("assistant", 1), ("user", 2)]
    assert found.request.messages[2].content == "c"
    assert read_back(found.manifest, session.events, blobs_of(FILES)) == found.request.messages
