from __future__ import annotations

from io import StringIO

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rich.console import Console

from tests.support.generators.blueprint_strategies import BlueprintVariant, draw_variants
from tests.support.generators.event_strategies import EVENT_STRATEGIES
from tests.support.generators.session_strategies import (
    SessionRequest,
    continue_session,
    draw_requests,
)
from tests.support.sessions.prompt_assembly import (
    assemble_next_prompt,
    open_with_blueprint,
    parse_blueprint,
)
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.manifest import KnowledgeSource, PromptPart
from turnlog.events.model.retrieval_events import CandidateVote
from turnlog.events.registry import EVENT_TYPES, KnownEvent, UnknownEvent
from turnlog.projections.audit.explain.part_provenance import PartProvenance
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.projections.session_views.cost_totals import CostTotal
from turnlog.projections.testing import claim_turn, submit_turn
from turnlog.services.cli.conversation.reply_display import LabelledTextWriter
from turnlog.services.cli.views.event_view import describe_event
from turnlog.services.cli.views.prompt_view import (
    render_parts,
    render_prompt_messages,
    split_prompt,
)
from turnlog.services.cli.views.provenance_view import render_origin, render_votes
from turnlog.services.cli.views.text_format import (
    escape_controls,
    format_cost,
    format_cost_sum,
    format_money,
)
from turnlog.services.cli.views.theme import FAMILY_COLOURS, render_labelled_text
from turnlog.services.cli.views.token_view import render_token_bars, split_columns, sum_shares

KIND = """
blueprint: kind
version: 1
layers: {persona: {file: persona.md}}
calls: {reply: {messages: [{system: [persona]}, {user: [input]}]}}
profiles: {chat: {default: true, call: reply}}
"""


def build_console(width: int = 100) -> Console:
    return Console(width=width, file=StringIO(), record=True, highlight=False, markup=False)


def assemble_variant(variant: BlueprintVariant, requests: list[SessionRequest]) -> AssembledPrompt:
    session = continue_session(
        open_with_blueprint(variant.blueprint, variant.files, **variant.attributes), requests
    )
    if session.opened_state.open is None:
        assume(not session.opened_state.closed)
        session = session.apply_steps(submit_turn("What now?"), claim_turn())
    try:
        return assemble_next_prompt(session, variant.blueprint, variant.files)
    except Refused:
        assume(condition=False)
        raise


@given(draw_variants(), draw_requests(most=12))
def test_every_character_of_a_prompt_is_shown_under_its_layer(
    variant: BlueprintVariant, requests: list[SessionRequest]
) -> None:
    found = assemble_variant(variant, requests)
    spans = split_prompt(found.request.messages, found.manifest)
    for place, message in enumerate(found.request.messages):
        of_this = [passage for passage in spans if passage.message_index == place]
        assert "".join(passage.text for passage in of_this) == message.content
        assert {passage.role for passage in of_this} == {message.role}


@pytest.mark.slow("many generated cases are tried")
@given(draw_variants(), draw_requests(most=12))
def test_any_prompt_can_be_rendered(
    variant: BlueprintVariant, requests: list[SessionRequest]
) -> None:
    found = assemble_variant(variant, requests)
    console = build_console()
    console.print(render_prompt_messages(found.request.messages, found.manifest))
    console.print(render_parts(found.manifest), render_token_bars(found.manifest))
    text = console.export_text()
    for part in found.manifest.parts:
        assert part.message is None or part.layer in text


def test_splitting_a_prompt_by_an_inconsistent_manifest_raises_corrupt() -> None:
    blueprint, files = parse_blueprint(KIND), {"persona": "You are kind."}
    session = open_with_blueprint(blueprint, files).apply_steps(submit_turn("Hi"), claim_turn())
    found = assemble_next_prompt(session, blueprint, files)
    longer = found.manifest.parts[0].model_copy(update={"characters": 999})
    manifest = found.manifest.model_copy(update={"parts": (longer, *found.manifest.parts[1:])})
    with pytest.raises(Corrupt):
        split_prompt(found.request.messages, manifest)


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=12), st.integers(12, 200))
def test_token_bars_fill_all_columns_and_show_every_nonzero_part(
    sizes: list[int], columns: int
) -> None:
    given_columns = split_columns(sizes, columns)
    assert sum(given_columns) == (columns if any(sizes) else 0)
    assert all(bool(width) == bool(size) for width, size in zip(given_columns, sizes, strict=True))


@pytest.mark.slow("many generated cases are tried")
@given(draw_variants(), draw_requests(most=12))
def test_component_tokens_add_up_to_the_prompt_tokens(
    variant: BlueprintVariant, requests: list[SessionRequest]
) -> None:
    manifest = assemble_variant(variant, requests).manifest
    assert sum(share.tokens for share in sum_shares(manifest.parts)) == manifest.tokens


@given(st.one_of(*EVENT_STRATEGIES.values()))
def test_every_event_type_has_a_description(event: KnownEvent) -> None:
    assert isinstance(describe_event(event), str)


def test_event_of_a_later_release_has_a_description() -> None:
    assert (
        describe_event(UnknownEvent("turnlog.dreamt.v1", {"a": 1}))
        == "not known to this release · 1 field"
    )


@given(st.text(), st.integers(30, 80))
def test_rendered_text_contains_no_terminal_control_characters(text: str, width: int) -> None:
    console = build_console(width)
    console.print(render_labelled_text("reply", text, "blue", 5))
    file = console.file
    assert isinstance(file, StringIO)
    assert not any(
        ord(char) < 32 or 127 <= ord(char) < 160 for char in file.getvalue().replace("\n", "")
    )
    assert escape_controls(escape_controls(text)) == escape_controls(text)


@given(st.lists(st.sampled_from(["Hello ", "wor", "ld", ", it", "\n", " is\tso. ", "x" * 30])))
def test_text_written_in_pieces_renders_like_text_written_at_once(pieces: list[str]) -> None:
    assume("".join(pieces).strip())
    typed, rendered = build_console(60), build_console(60)
    typist = LabelledTextWriter(typed, "reply", "blue", 5)
    for piece in pieces:
        typist.write_text(piece)
    typist.end_text()
    rendered.print(render_labelled_text("reply", "".join(pieces), "blue", 5))
    assert list_words(typed) == list_words(rendered)


def list_words(console: Console) -> list[str]:
    return console.export_text().replace("▌", " ").split()


@pytest.mark.parametrize(
    ("micro_dollars", "formatted"),
    [(None, ""), (0, "$0.00"), (28, "$0.000028"), (1_250_000, "$1.25"), (10, "$0.00001")],
)
def test_small_amounts_of_money_are_not_rounded_to_zero(
    micro_dollars: int | None, formatted: str
) -> None:
    assert format_money(micro_dollars) == formatted


@pytest.mark.parametrize(
    ("cost", "of_one_call", "of_several"),
    [
        (CostTotal(28, guessed=True), "$0.000028 (guessed)", "$0.000028 (guessed)"),
        (CostTotal(0), "$0.00", "$0.00"),
        (
            CostTotal(28, unpriced_calls=1),
            "≥ $0.000028",
            "≥ $0.000028 · 1 call without a price",
        ),
        (CostTotal(None, unpriced_calls=2), "", "2 calls without a price"),
        (CostTotal(None), "", ""),
    ],
)
def test_cost_sum_shows_guessed_prices_and_the_number_of_uncounted_calls(
    cost: CostTotal, of_one_call: str, of_several: str
) -> None:
    assert (format_cost(cost), format_cost_sum(cost)) == (of_one_call, of_several)


def test_every_event_family_has_a_unique_colour() -> None:
    families = {kind.leaf.partition(".")[0] for kind in EVENT_TYPES.values()}
    assert families == set(FAMILY_COLOURS)
    assert len(set(FAMILY_COLOURS.values())) == len(FAMILY_COLOURS)


@pytest.mark.parametrize(("feedback", "shown"), [(2, "votes +2"), (0, None), (None, None)])
def test_origin_of_a_retrieved_entry_shows_the_sum_of_its_votes(
    feedback: int | None, shown: str | None
) -> None:
    source = KnowledgeSource(
        retrieved=3,
        collection="champion",
        entry="yields",
        revision=1,
        digest="sha256:" + "0" * 64,
        score=0.8,
        confidence=0.8,
    )
    origin = PartProvenance(
        part=PromptPart(layer="cases", component="rag_context", source=source),
        by=(),
        filled=(),
        because=(),
        removed=(),
        feedback=feedback,
    )
    lines = render_origin(origin).plain.splitlines()
    assert [line for line in lines if line.startswith("votes")] == ([shown] if shown else [])


def test_votes_on_a_retrieved_entry_are_shown_with_their_events() -> None:
    votes = (
        CandidateVote(session="s-3", sequence=14, vote=0),
        CandidateVote(session="s-2", sequence=12, vote=-1),
        CandidateVote(session="s-1", sequence=9, vote=1),
    )
    assert [line.plain for line in render_votes(votes, 2)] == [
        "took a vote back by session s-3, event 14",
        "voted -1 by session s-2, event 12",
        "voted +1 by session s-1, event 9",
        "and 2 older votes",
    ]
    assert list(render_votes((), 0)) == []
