"""Under which keys an event is sealed: those of the turns that it follows from, and no others."""

from __future__ import annotations

from turnlog.events.content import PlainText, compute_digest
from turnlog.events.model.attempt_figures import AttemptCost
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import (
    BlobSource,
    BlueprintTextSource,
    CounterRef,
    EventTextSource,
    HistorySource,
    Manifest,
    ParentInputSource,
    PartSource,
    PromptPart,
    SegmentSource,
)
from turnlog.events.model.memory_events import HistorySummarised, TurnRange
from turnlog.events.model.redaction_events import RedactedSpan
from turnlog.events.model.retrieval_events import (
    CandidateOutcome,
    KnowledgeRetrieved,
    RetrievalCandidate,
    RetrievalLimits,
)
from turnlog.events.model.session_events import SessionClosed, SessionOrigin
from turnlog.events.model.turn_events import (
    TurnDisplayed,
    TurnExcluded,
    TurnFailed,
    TurnSubmitted,
)
from turnlog.events.registry import KnownEvent
from turnlog.projections.session.frozen_copies import replace
from turnlog.projections.session.rules.event_leaves import (
    list_event_leaves,
    list_text_leaves,
    list_work_leaves,
)
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_commands import RedactText
from turnlog.projections.testing import (
    SESSION,
    build_exchange,
    given,
    open_session,
    submit_turn,
)

DIGEST = compute_digest("x")

KEYED = f"hmac-{DIGEST}"

HISTORY = given(
    open_session(language="en"),
    *build_exchange("one", "1"),
    *build_exchange("two", "2"),
    *build_exchange("three", "3"),
    submit_turn("four"),
)


def list_leaves(event: KnownEvent, state: SessionState | None = None) -> dict[str, list[int]]:
    found = list_event_leaves(SESSION, state or HISTORY.opened_state, event)
    return {session: sorted(leaves) for session, leaves in found.items()}


def find_sequence(turn: int, kind: str) -> int:
    """Return the sequence of the first event of a type in a turn."""
    names = [(each.sequence, each.envelope.type, each.event) for each in HISTORY.events]
    return next(
        at for at, name, event in names if kind in name and getattr(event, "turn", 0) == turn
    )


def assemble(*sources: PartSource) -> ContextAssembled:
    """Return a call of turn 4 whose prompt has these sources."""
    manifest = Manifest(
        kind="reply",
        at="",
        sequence=1,
        assembler=1,
        counter=CounterRef(name="chars/4", exact=False),
        tokens=0,
        parts=tuple(PromptPart(layer="a", component="a", source=each) for each in sources),
        digest=DIGEST,
    )
    return ContextAssembled(turn=4, call="4.1", model="m", parameters={}, manifest=manifest)


def test_what_a_person_says_and_what_comes_of_it_are_under_two_leaves_of_the_turn() -> None:
    failed = TurnFailed(turn=4, code="c", detail="", retryable=False)
    text = PlainText(text="a")
    assert list_leaves(TurnSubmitted(turn=4)) == {SESSION: [8]}
    assert list_leaves(failed) == list_leaves(TurnExcluded(turn=4)) == {SESSION: [9]}
    assert list_leaves(TurnDisplayed(turn=4, text=text)) == {SESSION: [8]}
    assert list_leaves(TurnDisplayed(turn=4, reply=text)) == {SESSION: [9]}
    assert list_leaves(TurnDisplayed(turn=4, text=text, reply=text)) == {SESSION: [8, 9]}
    assert list_leaves(SessionClosed(reason="over")) == {SESSION: [0]}


def test_prompt_is_under_the_leaves_of_what_it_has_and_of_nothing_else() -> None:
    own = EventTextSource(sequence=find_sequence(4, "submitted"), field="text")
    assert list_leaves(assemble()) == {SESSION: [9]}
    assert list_leaves(assemble(own)) == {SESSION: [8, 9]}
    run = HistorySource(view="chat", first=2, last=3)
    assert list_leaves(assemble(run, own)) == {SESSION: [4, 5, 6, 7, 8, 9]}
    reply = EventTextSource(sequence=find_sequence(1, "completed"), field="text")
    text = EventTextSource(sequence=find_sequence(1, "submitted"), field="text")
    assert list_leaves(assemble(reply)) == {SESSION: [3, 9]}
    assert list_leaves(assemble(text)) == {SESSION: [2, 9]}
    attribute = EventTextSource(sequence=1, field="attributes.language")
    assert list_leaves(assemble(attribute)) == {SESSION: [0, 9]}
    assert list_leaves(assemble(BlueprintTextSource(text="always"))) == {SESSION: [9]}


def test_prompt_and_retrieval_are_under_the_leaves_of_the_sealed_texts_that_they_have() -> None:
    override = BlobSource(digest=KEYED, path="a.md", user="ann", version=1, sealed_in=7)
    segment = SegmentSource(segment=1, version=2, digest=KEYED, scope="core", sealed_in=3)
    assert list_leaves(assemble(override, segment)) == {
        SESSION: [9],
        "_library-prompt-overrides": [7],
        "_library-segments": [3],
    }
    file = BlobSource(digest=DIGEST, path="a.md")
    plain = SegmentSource(segment=1, version=2, digest=DIGEST, scope="core")
    assert list_leaves(assemble(file, plain)) == {SESSION: [9]}
    candidates = (
        build_candidate(5, KEYED, "taken"),
        build_candidate(6, KEYED, "score"),
        build_candidate(4, DIGEST, "taken"),
    )
    retrieved = KnowledgeRetrieved(
        turn=4,
        call="4.1",
        retrieval="cases",
        query=PlainText(text="q"),
        collections=("c",),
        limits=RetrievalLimits(k=2),
        candidates=candidates,
    )
    assert list_leaves(retrieved) == {SESSION: [8, 9], "_library-knowledge": [5]}


def build_candidate(revision: int, digest: str, outcome: CandidateOutcome) -> RetrievalCandidate:
    return RetrievalCandidate(
        collection="c",
        entry="e",
        revision=revision,
        kind="case",
        digest=digest,
        characters=1,
        fused=1,
        score=1,
        confidence=1,
        outcome=outcome,
    )


def test_summary_is_under_all_turns_that_it_covers() -> None:
    summarised = HistorySummarised(
        turn=4,
        call="4.1",
        view="chat",
        summary=PlainText(text="both"),
        turns=(TurnRange(first=1, last=1), TurnRange(first=3, last=3)),
        inputs=DIGEST,
        model="m",
        cost=AttemptCost(micro_dollars=0, price="unknown", table=""),
    )
    assert list_leaves(summarised) == {SESSION: [2, 3, 6, 7]}


def test_what_a_child_is_told_is_under_the_leaves_of_its_parents_turn_too() -> None:
    origin = SessionOrigin(kind="parent", session="p", sequence=9)
    child = replace(HISTORY.opened_state, origin=origin)
    asked = TurnSubmitted(turn=4, meta={"turn": 2, "call": "2.1", "id": "a"})
    assert list_leaves(asked, child) == {SESSION: [8], "p": [4, 5]}
    handed = ParentInputSource(handed=1, input="a", session="p", turn=3, digest=DIGEST)
    assert list_leaves(assemble(handed), child) == {SESSION: [0, 9], "p": [6, 7]}


def test_turns_that_a_fork_has_from_its_origin_are_under_the_leaves_of_the_origin() -> None:
    origin = SessionOrigin(kind="fork", session="o", sequence=find_sequence(2, "completed"))
    fork = replace(HISTORY.opened_state, origin=origin)
    run = HistorySource(view="chat", first=2, last=3)
    assert list_leaves(assemble(run), fork) == {SESSION: [6, 7, 9], "o": [4, 5]}
    reply = EventTextSource(sequence=find_sequence(1, "completed"), field="text")
    assert list_leaves(assemble(reply), fork) == {SESSION: [9], "o": [3]}
    older = HistorySource(view="chat", first=9, last=9)
    assert list_leaves(assemble(older), fork) == {SESSION: [9, 18, 19], "o": [18, 19]}


def test_text_of_the_origin_that_a_fork_withheld_in_part_is_under_the_leaves_of_both() -> None:
    origin = SessionOrigin(kind="fork", session="o", sequence=find_sequence(2, "completed"))
    settled = given(open_session(), *build_exchange("one", "1"), *build_exchange("two", "2"))
    forked = replace(HISTORY.opened_state, origin=origin)
    part = RedactText(
        turn=2,
        reason="so",
        rule="operator",
        replacement="t[withheld]",
        spans=(RedactedSpan(begin=1, end=3),),
    )
    (event,) = settled.when(part).events
    assert list_leaves(event, forked) == {SESSION: [4], "o": [4]}
    redacted = HISTORY.apply_steps(part)
    fork = replace(redacted.opened_state, origin=origin)
    run = HistorySource(view="chat", first=2, last=2)
    assert list_leaves(assemble(run), fork) == {SESSION: [4, 5, 9], "o": [4, 5]}
    picture = EventTextSource(sequence=find_sequence(2, "submitted"), field="parts.0")
    assert list_leaves(assemble(picture), redacted.opened_state) == {SESSION: [4, 9]}


def test_texts_of_a_plain_session_are_under_no_leaf() -> None:
    state = HISTORY.opened_state
    assert list_text_leaves(state, 2) is None
    assert list_work_leaves(state, 2) is None
    sealed = replace(state, sealed_under=1)
    assert list_text_leaves(sealed, 2) == {SESSION: frozenset({4})}
    assert list_work_leaves(sealed, 2) == {SESSION: frozenset({5})}
