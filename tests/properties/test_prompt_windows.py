from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.faults.suite_extent import choose_examples
from tests.support.generators.blueprint_strategies import BlueprintVariant, draw_variants
from tests.support.generators.reference_assembler import (
    assemble_reference_prompt,
    build_turn_messages,
    count_tokens,
    count_turn_tokens,
    is_kept,
)
from tests.support.generators.session_strategies import (
    SessionRequest,
    continue_session,
    draw_requests,
)
from tests.support.sessions.prompt_assembly import (
    assemble_next_prompt,
    assemble_prompt_from,
    build_blobs,
    open_with_blueprint,
)
from turnlog.events.errors import Refused
from turnlog.events.model.manifest import EventTextSource, HistorySource, PromptPart
from turnlog.projections.audit.record.prompt_readback import read_prompt
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.projections.prompt.chat_request import ChatMessage
from turnlog.projections.session.evolve import fold, fold_unbounded
from turnlog.projections.session_views.session_history import build_history
from turnlog.projections.testing import (
    STATE_ADAPTER,
    SessionScenario,
    build_exchange,
    claim_turn,
    complete_turn,
    submit_turn,
)

few = settings(max_examples=choose_examples(15))
"""For properties that the first one implies; they are separate so that a failure has a name."""

HISTORY = {"history": "recent"}


@dataclass(frozen=True, slots=True)
class PromptCase:
    """A session with an open turn, and the result of its next call."""

    variant: BlueprintVariant
    session: SessionScenario = field(repr=False)
    found: AssembledPrompt | Refused = field(repr=False)
    asked: tuple[SessionRequest, ...] = ()
    """The requests that led here, shown in a failing example."""

    @property
    def assembled(self) -> AssembledPrompt:
        """The prompt, in those cases that have one."""
        assume(isinstance(self.found, AssembledPrompt))
        assert isinstance(self.found, AssembledPrompt)
        return self.found

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        return self.assembled.request.messages

    @property
    def listed(self) -> list[object]:
        """The message slots of the call."""
        return [slot.model_dump() for slot in self.variant.blueprint.calls["reply"].messages]

    @property
    def runs(self) -> list[tuple[PromptPart, HistorySource]]:
        """The parts of the history."""
        parts = self.assembled.manifest.parts
        return [(part, part.source) for part in parts if isinstance(part.source, HistorySource)]


def build_case(variant: BlueprintVariant, session: SessionScenario) -> PromptCase:
    try:
        return PromptCase(
            variant, session, assemble_next_prompt(session, variant.blueprint, variant.files)
        )
    except Refused as refusal:
        return PromptCase(variant, session, refusal)


def open_session(variant: BlueprintVariant) -> SessionScenario:
    return open_with_blueprint(variant.blueprint, variant.files, **variant.attributes)


@st.composite
def draw_case(draw: st.DrawFn) -> PromptCase:
    variant = draw(draw_variants())
    played = draw(draw_requests())
    session = continue_session(open_session(variant), played)
    if session.opened_state.open is None:
        session = session.apply_steps(submit_turn(draw(st.text("ab", max_size=20))))
    return replace(build_case(variant, session), asked=tuple(played))


@pytest.mark.slow("many generated cases are tried")
@given(draw_case())
def test_prompt_equals_that_of_a_naive_reference_assembler(case: PromptCase) -> None:
    expected = assemble_reference_prompt(case.variant, case.session)
    if isinstance(case.found, Refused):
        assert expected is None
    else:
        assert list(case.messages) == expected


@few
@given(draw_case())
def test_prompt_is_within_its_budget_or_refused_as_over_budget(case: PromptCase) -> None:
    budget = case.variant.budget
    if isinstance(case.found, Refused):
        assert (case.found.code, case.found.field) == ("over-budget", "budget")
        assert f"do not fit {budget}" in case.found.detail
    else:
        manifest = case.found.manifest
        assert budget is None or manifest.tokens <= budget
        assert manifest.tokens == sum(part.tokens for part in manifest.parts)


@few
@given(draw_case())
def test_required_layer_is_always_included(case: PromptCase) -> None:
    layers = case.variant.blueprint.layers
    for part in case.assembled.manifest.parts:
        if part.layer in layers and layers[part.layer].keep and part.source:
            assert part.treatment == "kept" or part.rule == "nothing to say"


@few
@given(draw_case())
def test_excluded_turns_and_cut_ones_that_are_dropped_are_absent(case: PromptCase) -> None:
    kept = {turn.turn for turn in build_history(case.session.events) if is_kept(turn)}
    excluded = {turn.turn for turn in build_history(case.session.events) if turn.excluded}
    assert list_shown_turns(case.runs) <= kept - excluded


def list_shown_turns(runs: list[tuple[PromptPart, HistorySource]]) -> set[int]:
    """Number the turns that stand in the prompt."""
    kept = (source for part, source in runs if part.message is not None)
    return {turn for source in kept for turn in range(source.first, source.last + 1)}


@few
@given(draw_case())
def test_manifest_lists_every_settled_turn_once_and_in_order(case: PromptCase) -> None:
    named = [t for _, source in case.runs for t in range(source.first, source.last + 1)]
    settled = [turn.turn for turn in build_history(case.session.events) if turn.settled_at]
    assert named in ([], settled)
    assert (named == []) == (HISTORY not in case.listed or not settled)


@few
@given(draw_case())
def test_turn_is_included_verbatim_and_a_redacted_reply_as_its_replacement(
    case: PromptCase,
) -> None:
    turns = {turn.turn: turn for turn in build_history(case.session.events)}
    for part, source in case.runs:
        if part.message is not None:
            numbers = range(source.first, source.last + 1)
            messages = [message for n in numbers for message in build_turn_messages(turns[n])]
            found = case.messages[part.message : part.message + len(messages)]
            assert list(found) == messages


@few
@given(draw_case())
def test_a_prompt_reads_back_from_the_log_byte_for_byte(case: PromptCase) -> None:
    found = case.assembled
    blobs = build_blobs(case.variant.files)
    assert read_prompt(found.manifest, case.session.events, blobs) == found.request.messages
    assert found.manifest.digest == found.request.digest


@few
@given(draw_case(), draw_requests(most=10))
def test_prompt_reads_back_unchanged_after_any_later_events(
    case: PromptCase, requests: list[SessionRequest]
) -> None:
    later = continue_session(case.session, requests)
    blobs = build_blobs(case.variant.files)
    assert read_prompt(case.assembled.manifest, later.events, blobs) == case.messages


@few
@given(draw_case())
def test_prompt_is_reassembled_from_a_fold_an_unbounded_fold_or_a_snapshot(
    case: PromptCase,
) -> None:
    digest = case.assembled.request.digest
    events = case.session.events
    snapshot = STATE_ADAPTER.validate_json(STATE_ADAPTER.dump_json(case.session.opened_state))
    for state in (fold(events), fold_unbounded(events), snapshot):
        assert state is not None
        again = assemble_prompt_from(state, events, case.variant.blueprint, case.variant.files)
        assert again.request.digest == digest


@few
@given(draw_case())
def test_absent_layer_leaves_no_blank_lines(case: PromptCase) -> None:
    for message in case.messages:
        if message.role == "system":
            assert message.content.strip("\n") == message.content
            assert "\n\n\n" not in message.content


@few
@given(draw_case())
def test_parts_of_a_message_add_up_to_its_tokens_and_characters(case: PromptCase) -> None:
    shares: dict[int, list[PromptPart]] = {}
    for part in case.assembled.manifest.parts:
        if part.message is None:
            assert (part.tokens, part.characters, part.digest) == (0, 0, None)
        elif not isinstance(part.source, HistorySource):
            shares.setdefault(part.message, []).append(part)
    for place, parts in shares.items():
        content = case.messages[place].content
        assert sum(part.characters for part in parts) == len(content)
        assert sum(part.tokens for part in parts) == count_tokens(case.variant, content)


TALK = st.lists(st.tuples(st.text("ab\n", min_size=1), st.text("cd\n", min_size=1)), max_size=12)

ROOMY = draw_variants(budgets=st.none() | st.just(10_000), max_turns=st.none())


@few
@given(ROOMY, TALK)
def test_manifest_of_an_uninterrupted_history_does_not_grow_with_its_turns(
    variant: BlueprintVariant, talk: list[tuple[str, str]]
) -> None:
    session = open_session(variant).apply_steps(*build_exchange("Hi", "Hello"))
    short = build_case(variant, session.apply_steps(submit_turn("Hm?")))
    for question, reply in talk:
        session = session.apply_steps(*build_exchange(question, reply))
    long = build_case(variant, session.apply_steps(submit_turn("Hm?")))
    assert len(short.assembled.manifest.parts) == len(long.assembled.manifest.parts)


@few
@given(draw_variants(), TALK)
def test_messages_before_the_first_changed_part_equal_those_of_the_previous_prompt(
    variant: BlueprintVariant, talk: list[tuple[str, str]]
) -> None:
    for before, after in pairwise(iterate_windows(variant, talk)):
        changed = find_first_change(before.assembled.manifest.parts, after.assembled.manifest.parts)
        same = len(before.messages) if changed is None else changed
        assert after.messages[:same] == before.messages[:same]


LONG_TALK = st.lists(st.tuples(st.text("ab", min_size=9), st.text("c", min_size=9)), min_size=9)

TIGHT = draw_variants(budgets=st.integers(200, 260), max_turns=st.none())


@pytest.mark.slow("many generated cases are tried")
@few
@given(TIGHT, LONG_TALK)
def test_only_the_oldest_turns_are_dropped_and_only_as_many_as_needed(
    variant: BlueprintVariant, talk: list[tuple[str, str]]
) -> None:
    case = list(iterate_windows(variant, talk))[-1]
    rules = {"drop_oldest_pairs", "out of reach"}
    dropped = [t for p, s in case.runs if p.rule in rules for t in range(s.first, s.last + 1)]
    if dropped:
        assert dropped == list(range(1, len(dropped) + 1))
        assert list_shown_turns(case.runs) == set(range(len(dropped) + 1, len(talk)))
        spared = count_turn_tokens(variant, [build_history(case.session.events)[len(dropped) - 1]])
        assert case.assembled.manifest.tokens + spared > (variant.budget or 0)


def iterate_windows(variant: BlueprintVariant, talk: list[tuple[str, str]]) -> Iterator[PromptCase]:
    """Iterate over the windows of all calls of a conversation."""
    session = open_session(variant)
    for question, reply in talk:
        session = session.apply_steps(submit_turn(question))
        case = build_case(variant, session)
        if isinstance(case.found, AssembledPrompt):
            yield case
        session = session.apply_steps(claim_turn(), complete_turn(reply))


def find_first_change(before: Sequence[PromptPart], after: Sequence[PromptPart]) -> int | None:
    """Give the first message that a changed part stands in; none where none changed."""
    same = sum(
        1 for _ in takewhile(lambda pair: is_continued(*pair), zip(before, after, strict=False))
    )
    changed = [part.message for part in (*before[same:], *after[same:])]
    return min((message for message in changed if message is not None), default=None)


def is_continued(old: PromptPart, new: PromptPart) -> bool:
    """Tell whether a part is the same, or the same run with later turns at its end."""
    if isinstance(old.source, HistorySource) and isinstance(new.source, HistorySource):
        grown = new.source.last >= old.source.last and new.message is not None
        return old.message == new.message and old.source.first == new.source.first and grown
    if isinstance(old.source, EventTextSource) and isinstance(new.source, EventTextSource):
        return (old.layer, old.digest, old.message) == (new.layer, new.digest, new.message)
    return (old.layer, old.source, old.message) == (new.layer, new.source, new.message)
