"""Hypothesis strategies for every event type, with numbers that may make no sense."""

from __future__ import annotations

from hypothesis import strategies as st

from turnlog.events.content import ErasedText, PlainText, SealedText, compute_digest
from turnlog.events.model.call_events import (
    AttemptEnded,
    AttemptStarted,
    CallCompleted,
    ContextAssembled,
)
from turnlog.events.model.child_events import ChildEnded, ChildRequested, ChildSettled
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.manifest import CounterRef, Manifest
from turnlog.events.model.memory_events import (
    HistorySummarised,
    MemoryPurged,
    SummaryBegun,
    SummaryFailed,
    SummaryTrigger,
    SummaryUndone,
    TurnRange,
)
from turnlog.events.model.prompt_events import PromptFile, PromptsSnapshotted
from turnlog.events.model.redaction_events import (
    ContentErased,
    ErasedTurn,
    ErasureBegun,
    RedactedSpan,
    ReplyRedacted,
    TextRedacted,
)
from turnlog.events.model.retrieval_events import (
    EntryFeedbackGiven,
    FeedbackGiven,
    KnowledgeRetrieved,
    QueriesFailed,
    QueriesRequested,
    RetrievalCandidate,
    RetrievalLimits,
)
from turnlog.events.model.session_events import (
    BlueprintMoved,
    BlueprintRef,
    PhaseEntered,
    ProfileSwitched,
    SessionClosed,
    SessionDescribed,
    SessionOpened,
    ShareChanged,
)
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ApprovalRequested,
    PlanMade,
    SchemasRequested,
    StepPlanned,
    ToolCalled,
    ToolListChanged,
    ToolPin,
    ToolReturned,
    ToolsSnapshotted,
    ToolStarted,
    WholeResult,
)
from turnlog.events.model.turn_events import (
    ChoiceRecorded,
    InheritableReference,
    PhaseExchange,
    ReferenceUpdated,
    ReplyAnswer,
    TurnCancelled,
    TurnCompleted,
    TurnDisplayed,
    TurnExcluded,
    TurnFailed,
    TurnQueued,
    TurnReleased,
    TurnResolved,
    TurnRestored,
    TurnSubmitted,
)
from turnlog.events.registry import KnownEvent
from turnlog.projections.testing import SAMPLE_SPENT

TURN_NUMBERS = st.integers(-1, 6)

ATTEMPT_NUMBERS = st.integers(0, 3)

SAMPLE_DIGEST = compute_digest("x")

CONTENTS = st.one_of(
    st.builds(PlainText, text=st.text(max_size=20)),
    st.just(SealedText(sealed="AAAA", key="k", digest=SAMPLE_DIGEST, characters=7)),
    st.just(ErasedText(erased=True, digest=SAMPLE_DIGEST, characters=7)),
)

PARTS = st.sampled_from(
    [
        (),
        (
            MediaPart(
                kind="image", digest=SAMPLE_DIGEST, size=1, media_type="image/png", name="x.png"
            ),
            MediaPart(
                kind="file", digest=SAMPLE_DIGEST, size=1, media_type="application/pdf", at=3
            ),
        ),
    ]
)

PHASES = st.sampled_from(["intro", "debrief"])

VIEWS = st.sampled_from(["recent", "other"])

RANGES = st.just((TurnRange(first=1, last=2),))

CALLS = st.sampled_from(["1.1", "2.1", "nonsense"])

EXCHANGES = st.builds(
    PhaseExchange,
    phase=PHASES,
    kind=st.sampled_from(["freeform", "debrief"]),
    count=st.integers(0, 3),
)

SAMPLE_MANIFEST = Manifest(
    kind="reply",
    at="2026-01-01T00:00:00Z",
    sequence=1,
    assembler=1,
    counter=CounterRef(name="chars/4", exact=False),
    tokens=0,
    parts=(),
    digest=SAMPLE_DIGEST,
)

EVENT_STRATEGIES: dict[type[KnownEvent], st.SearchStrategy[KnownEvent]] = {
    SessionOpened: st.builds(
        SessionOpened,
        blueprint=st.just(BlueprintRef(name="assistant", version=1, digest=SAMPLE_DIGEST)),
        profile=st.just("chat"),
        attributes=st.just({}),
        reach=st.sampled_from([0, 1, 30]),
        origin=st.none(),
    ),
    BlueprintMoved: st.builds(
        BlueprintMoved,
        before=st.just(BlueprintRef(name="assistant", version=1, digest=SAMPLE_DIGEST)),
        blueprint=st.just(BlueprintRef(name="assistant", version=2, digest=SAMPLE_DIGEST)),
        attributes=st.just({}),
        reach=st.sampled_from([0, 1, 30]),
    ),
    ProfileSwitched: st.builds(
        ProfileSwitched,
        profile=st.sampled_from(["chat", "agent"]),
        before=st.just("chat"),
        reason=st.sampled_from(["asked", "phase"]),
        model=st.none() | st.just("puppet/two"),
    ),
    SessionDescribed: st.builds(
        SessionDescribed,
        title=st.none() | CONTENTS,
        labels=st.none() | st.sampled_from([(), ("one",), ("two", "one")]),
        metadata=st.none() | st.sampled_from([{}, {"key": 1}, {"key": [None]}]),
    ),
    ShareChanged: st.builds(
        ShareChanged,
        user=st.sampled_from(["ann", "ben"]),
        access=st.sampled_from(["read", "submit", "none"]),
    ),
    SessionClosed: st.builds(SessionClosed, reason=st.just("done")),
    PromptsSnapshotted: st.builds(
        PromptsSnapshotted,
        provider=st.sampled_from(["openai", "gemini"]),
        layers=st.just({"persona": PromptFile(digest=SAMPLE_DIGEST, path="persona.md")}),
    ),
    TurnSubmitted: st.builds(
        TurnSubmitted, turn=TURN_NUMBERS, text=st.none() | CONTENTS, parts=PARTS
    ),
    TurnQueued: st.builds(TurnQueued, turn=TURN_NUMBERS, text=st.none() | CONTENTS, parts=PARTS),
    TurnReleased: st.builds(TurnReleased, turn=TURN_NUMBERS),
    TurnCompleted: st.builds(
        TurnCompleted,
        turn=TURN_NUMBERS,
        call=CALLS,
        text=CONTENTS,
        finish=st.just("stop"),
        exchange=st.none() | EXCHANGES,
        answer=st.none()
        | st.builds(
            ReplyAnswer,
            attempt=ATTEMPT_NUMBERS,
            spent=st.just(SAMPLE_SPENT),
            text=st.none() | CONTENTS,
        ),
        reference=st.none()
        | st.builds(InheritableReference, identifiers=st.just({"ticker": "A"}), intent=st.none()),
    ),
    TurnFailed: st.builds(
        TurnFailed,
        turn=TURN_NUMBERS,
        code=st.just("x"),
        detail=st.just("x"),
        retryable=st.booleans(),
        cut_reply=st.none() | CONTENTS,
        shown=st.integers(0, 3),
    ),
    TurnCancelled: st.builds(
        TurnCancelled,
        turn=TURN_NUMBERS,
        reason=st.just("cancelled"),
        cut_reply=st.none() | CONTENTS,
        shown=st.integers(0, 3),
    ),
    TurnExcluded: st.builds(TurnExcluded, turn=TURN_NUMBERS),
    TurnRestored: st.builds(TurnRestored, turn=TURN_NUMBERS),
    TurnDisplayed: st.builds(
        TurnDisplayed, turn=TURN_NUMBERS, reply=st.just(PlainText(text="<p>so</p>"))
    ),
    AttemptStarted: st.builds(
        AttemptStarted, turn=TURN_NUMBERS, call=CALLS, attempt=ATTEMPT_NUMBERS, worker=st.just("w")
    ),
    ContextAssembled: st.builds(
        ContextAssembled,
        turn=TURN_NUMBERS,
        call=CALLS,
        model=st.just("m"),
        parameters=st.just({}),
        manifest=st.just(SAMPLE_MANIFEST),
    ),
    AttemptEnded: st.builds(
        AttemptEnded,
        turn=TURN_NUMBERS,
        call=CALLS,
        attempt=ATTEMPT_NUMBERS,
        outcome=st.sampled_from(["answered", "failed", "cancelled", "lost", "unasked"]),
        usage=st.just(SAMPLE_SPENT.usage),
        cost=st.just(SAMPLE_SPENT.cost),
        timings=st.none(),
        fault=st.none(),
        partial=st.none() | CONTENTS,
    ),
    CallCompleted: st.builds(
        CallCompleted,
        turn=TURN_NUMBERS,
        call=CALLS,
        attempt=ATTEMPT_NUMBERS,
        finish=st.just("stop"),
        digest=st.just(SAMPLE_DIGEST),
        characters=st.just(3),
        text=st.none() | CONTENTS,
        spent=st.none() | st.just(SAMPLE_SPENT),
    ),
    PlanMade: st.builds(PlanMade, turn=TURN_NUMBERS, call=CALLS, steps=st.integers(0, 2)),
    StepPlanned: st.builds(StepPlanned, turn=TURN_NUMBERS, step=st.integers(0, 3), goal=CONTENTS),
    ToolsSnapshotted: st.builds(
        ToolsSnapshotted,
        profile=st.sampled_from(["chat", "agent"]),
        digest=st.just(SAMPLE_DIGEST),
        tools=st.just({"look": ToolPin(digest=SAMPLE_DIGEST, server="shop", tool="look")}),
        full=st.just(SAMPLE_DIGEST),
        names=st.just(SAMPLE_DIGEST),
    ),
    ToolListChanged: st.builds(
        ToolListChanged,
        profile=st.sampled_from(["chat", "agent"]),
        digest=st.just(SAMPLE_DIGEST),
        outcome=st.sampled_from(["pinned", "not_pinned"]),
    ),
    SchemasRequested: st.builds(SchemasRequested, profile=st.sampled_from(["chat", "agent"])),
    ApprovalRequested: st.builds(
        ApprovalRequested,
        turn=TURN_NUMBERS,
        approval=st.just(1),
        call=CALLS,
        id=st.just("t1"),
        tool=st.just("look"),
        deadline=st.just("2026-01-01T00:00:00.000000Z"),
    ),
    ApprovalDecided: st.builds(
        ApprovalDecided,
        turn=TURN_NUMBERS,
        approval=st.just(1),
        call=CALLS,
        id=st.just("t1"),
        tool=st.just("look"),
        decision=st.sampled_from(["approve", "refuse"]),
        cause=st.sampled_from(["person", "deadline"]),
    ),
    ChildRequested: st.builds(
        ChildRequested,
        turn=TURN_NUMBERS,
        call=CALLS,
        id=st.just("t1"),
        profile=st.just("two"),
        session=st.just("child-1"),
        child_turn=TURN_NUMBERS,
    ),
    ChildSettled: st.builds(
        ChildSettled,
        turn=TURN_NUMBERS,
        call=CALLS,
        id=st.just("t1"),
        profile=st.just("two"),
        session=st.just("child-1"),
        child_turn=TURN_NUMBERS,
        outcome=st.sampled_from(["answered", "failed", "withdrawn"]),
    ),
    ChildEnded: st.builds(ChildEnded, turn=TURN_NUMBERS, parent=st.just("s")),
    ToolStarted: st.builds(
        ToolStarted,
        turn=TURN_NUMBERS,
        call=CALLS,
        id=st.just("t1"),
        tool=st.just("look"),
        attempt=ATTEMPT_NUMBERS,
    ),
    ToolCalled: st.builds(
        ToolCalled,
        turn=TURN_NUMBERS,
        call=CALLS,
        id=st.just("t1"),
        tool=st.sampled_from(["transition_phase", "nonsense"]),
        arguments=st.sampled_from(["{}", "not JSON"]),
    ),
    ToolReturned: st.builds(
        ToolReturned,
        turn=TURN_NUMBERS,
        call=CALLS,
        id=st.just("t1"),
        tool=st.just("transition_phase"),
        outcome=st.sampled_from(["accepted", "refused", "answered", "failed", "lost"]),
        text=st.none() | CONTENTS,
        parts=PARTS,
        whole=st.none()
        | st.builds(WholeResult, digest=st.just(SAMPLE_DIGEST), size=st.integers(1)),
    ),
    ChoiceRecorded: st.builds(
        ChoiceRecorded, phase=PHASES, choice=st.just("a"), label=st.none() | st.just("took a")
    ),
    PhaseEntered: st.builds(
        PhaseEntered,
        phase=PHASES,
        before=st.none() | PHASES,
        signal=st.none() | st.just("understood"),
        forced=st.booleans(),
        turn=st.none() | TURN_NUMBERS,
    ),
    TurnResolved: st.builds(
        TurnResolved,
        turn=TURN_NUMBERS,
        resolver=st.just("r"),
        entity=st.none() | st.just("fiis"),
        identifiers=st.sampled_from([{}, {"ticker": "A"}]),
        reason=st.just("in-text"),
        results=CONTENTS,
        answer=CONTENTS,
    ),
    QueriesRequested: st.builds(
        QueriesRequested, turn=TURN_NUMBERS, retrieval=st.sampled_from(["cases", "documents"])
    ),
    QueriesFailed: st.builds(
        QueriesFailed,
        turn=TURN_NUMBERS,
        retrieval=st.sampled_from(["cases", "documents"]),
        code=st.just("x"),
        detail=st.just("x"),
    ),
    KnowledgeRetrieved: st.builds(
        KnowledgeRetrieved,
        turn=TURN_NUMBERS,
        call=CALLS,
        retrieval=st.sampled_from(["cases", "documents"]),
        query=CONTENTS,
        collections=st.just(("champion",)),
        limits=st.just(RetrievalLimits(k=3)),
        candidates=st.lists(
            st.builds(
                RetrievalCandidate,
                collection=st.just("champion"),
                entry=st.sampled_from(["c-1", "c-2"]),
                revision=st.just(1),
                kind=st.just("case"),
                digest=st.just(SAMPLE_DIGEST),
                characters=st.just(1),
                fused=st.just(0.5),
                score=st.just(0.5),
                confidence=st.sampled_from([0.2, 0.9]),
                outcome=st.sampled_from(["taken", "score", "rank"]),
            ),
            max_size=2,
        ).map(tuple),
        nothing_found=st.none() | st.sampled_from(["answer", "refuse", "reply"]),
        unavailable=st.none() | st.just("knowledge-index"),
    ),
    FeedbackGiven: st.builds(
        FeedbackGiven,
        turn=TURN_NUMBERS,
        vote=st.sampled_from(["up", "down", "none"]),
        comment=st.none() | CONTENTS,
    ),
    EntryFeedbackGiven: st.builds(
        EntryFeedbackGiven,
        turn=TURN_NUMBERS,
        collection=st.just("champion"),
        entry=st.sampled_from(["c-1", "c-2"]),
        revision=st.just(1),
        vote=st.sampled_from(["up", "down", "none"]),
        comment=st.none() | CONTENTS,
    ),
    ReferenceUpdated: st.builds(
        ReferenceUpdated, turn=TURN_NUMBERS, identifiers=st.just({"ticker": "A"}), intent=st.none()
    ),
    SummaryBegun: st.builds(
        SummaryBegun,
        turn=TURN_NUMBERS,
        view=VIEWS,
        turns=RANGES,
        former=st.none() | TURN_NUMBERS,
        characters=st.integers(0, 9),
        trigger=st.none()
        | st.builds(
            SummaryTrigger,
            of=st.sampled_from(["view", "component", "prompt"]),
            tokens=st.integers(0, 9),
            limit=st.integers(1, 9),
        ),
    ),
    HistorySummarised: st.builds(
        HistorySummarised,
        turn=TURN_NUMBERS,
        call=CALLS,
        view=VIEWS,
        summary=CONTENTS,
        turns=RANGES,
        former=st.none() | TURN_NUMBERS,
        phases=st.just(()),
        inputs=st.just(SAMPLE_DIGEST),
        model=st.just("m"),
        cost=st.just(SAMPLE_SPENT.cost),
    ),
    SummaryFailed: st.builds(
        SummaryFailed, turn=TURN_NUMBERS, view=VIEWS, code=st.just("x"), detail=st.just("x")
    ),
    SummaryUndone: st.builds(
        SummaryUndone, sequence=st.integers(0, 20), view=VIEWS, cause=st.just("asked")
    ),
    MemoryPurged: st.builds(MemoryPurged, upto=TURN_NUMBERS),
    ReplyRedacted: st.builds(
        ReplyRedacted,
        turn=TURN_NUMBERS,
        reason=st.just("because"),
        rule=st.just("operator"),
        replacement=CONTENTS,
    ),
    TextRedacted: st.builds(
        TextRedacted,
        turn=TURN_NUMBERS,
        reason=st.just("because"),
        rule=st.just("operator"),
        replacement=CONTENTS,
        spans=st.sampled_from([(), (RedactedSpan(begin=0, end=1),)]),
    ),
    ErasureBegun: st.builds(
        ErasureBegun,
        leaves=st.just("s:4-5"),
        turns=st.sampled_from([(), (ErasedTurn(turn=2, of="turn"),)]),
        reason=st.just("because"),
    ),
    ContentErased: st.builds(
        ContentErased,
        begun=st.integers(1, 20),
        generation=st.just(1),
        record_before=st.just(compute_digest("before")),
        record_after=st.just(compute_digest("after")),
    ),
}

ANY_EVENT: st.SearchStrategy[KnownEvent] = st.one_of(*EVENT_STRATEGIES.values())
