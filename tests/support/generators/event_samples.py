"""One event of every type with every field filled, for golden bytes of a release.

A test fails for a type that is missing here, so no event is released without its bytes being kept.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.generators.alert_samples import build_alert_rule_samples
from tests.support.generators.key_samples import build_key_samples
from tests.support.generators.manifest_samples import (
    build_corrected_manifest,
    build_handed_manifest,
    build_manifest,
)
from tests.support.generators.retention_samples import build_retention_samples
from turnlog.events.content import ErasedText, PlainText, SealedText, compute_digest
from turnlog.events.model.attempt_figures import (
    AttemptCost,
    AttemptTimings,
    AttemptUsage,
    CacheTerms,
    SafetyRating,
    TokenUsage,
)
from turnlog.events.model.call_events import (
    AttemptEnded,
    AttemptFault,
    AttemptStarted,
    CallCompleted,
    ContextAssembled,
    ContextOverflow,
)
from turnlog.events.model.child_events import ChildEnded, ChildRequested, ChildSettled, ParentInput
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.knowledge_events import (
    KnowledgeAdded,
    KnowledgeEdited,
    KnowledgeEntry,
    KnowledgeRemoved,
)
from turnlog.events.model.memory_events import (
    HistorySummarised,
    MemoryPurged,
    SummaryBegun,
    SummaryFailed,
    SummaryUndone,
    TurnRange,
)
from turnlog.events.model.override_events import (
    OverrideRemoved,
    OverrideSet,
    UserOverride,
)
from turnlog.events.model.prompt_events import PromptFile, PromptsSnapshotted
from turnlog.events.model.quota_events import (
    MediaBalance,
    MediaCounted,
    MediaLimitEdited,
    MediaReservation,
    MediaReserved,
    MediaSettled,
    QuotaBalance,
    QuotaEdited,
    QuotaLimits,
    QuotaReleased,
    QuotaReservation,
    QuotaReserved,
    QuotaSettled,
)
from turnlog.events.model.redaction_events import (
    ContentErased,
    ErasedTurn,
    ErasureBegun,
    ErasureOrigin,
    RedactedSpan,
    ReplyRedacted,
    SourceErased,
    SourceErasureBegun,
    TextRedacted,
)
from turnlog.events.model.retrieval_events import (
    CandidateVote,
    EntryFeedbackGiven,
    FeedbackGiven,
    KnowledgeRetrieved,
    QueriesFailed,
    QueriesRequested,
    QueryRank,
    RetrievalCandidate,
    RetrievalLimits,
)
from turnlog.events.model.segment_events import (
    NewSegment,
    NewSegmentVersion,
    SegmentsActivated,
    SegmentsAdded,
    SegmentsDeactivated,
    SegmentsEdited,
    SegmentText,
)
from turnlog.events.model.session_events import (
    BlueprintMoved,
    BlueprintRef,
    PhaseEntered,
    ProfileSwitched,
    SessionClosed,
    SessionDescribed,
    SessionOpened,
    SessionOrigin,
    ShareChanged,
)
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ApprovalRequested,
    ChangedTool,
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
    InputFinding,
    PhaseExchange,
    ReferenceUpdated,
    ReplyAnswer,
    ReplyFallback,
    TurnCancelled,
    TurnCompleted,
    TurnDisplayed,
    TurnExcluded,
    TurnFailed,
    TurnQueued,
    TurnReleased,
    TurnReservation,
    TurnResolved,
    TurnRestored,
    TurnSubmitted,
)
from turnlog.events.model.webhook_events import (
    DeliveryFailure,
    SessionPlace,
    WebhookAdded,
    WebhookAdvanced,
    WebhookClaimed,
    WebhookFilter,
    WebhookGaveUp,
    WebhookPaused,
    WebhookPlace,
    WebhookRedeliveryRequested,
    WebhookRemoved,
    WebhookResumed,
)
from turnlog.events.registry import KnownEvent, LibraryEvent

SAMPLE_REASONING = PlainText(
    text='{"thinking_blocks":[{"signature":"c2ln","thinking":"Hm.","type":"thinking"}]}'
)
SAMPLE_TEXT = PlainText(text="Ein Satz, “quoted”: naïve, 漢字, 🙂, \t \u2028 and </script>")

SAMPLE_HMAC = "hmac-sha256:" + "5e" * 32

SAMPLE_USAGE = TokenUsage(known="reported", input_tokens=812, output_tokens=64, cached_tokens=512)

SAMPLE_FINDINGS = (
    InputFinding(rule="cards", action="mask", count=2),
    InputFinding(rule="contact", action="note", count=1),
)

SAMPLE_PARTS = (
    MediaPart(
        kind="image",
        digest=compute_digest("a picture"),
        size=9,
        media_type="image/png",
        name="harbour.png",
        at=4,
        width=640,
        height=480,
    ),
    MediaPart(
        kind="file",
        digest=compute_digest("a document"),
        size=10,
        media_type="application/pdf",
        at=9,
        pages=3,
    ),
    MediaPart(
        kind="audio",
        digest=compute_digest("a recording"),
        size=11,
        media_type="audio/wav",
        at=9,
        seconds=7,
    ),
)

SAMPLE_RESERVATION = TurnReservation(id="r-1", period="2026-01")

SAMPLE_PARENT_INPUT = ParentInput(
    name="diff",
    session="s-1",
    turn=2,
    sequence=11,
    digest=compute_digest("+sail()"),
)

SAMPLE_OVERRIDE = UserOverride(
    category="master_system",
    profile="llm_only",
    provider="openai",
    version=2,
    digest=compute_digest("I am terse."),
)

SAMPLE_SPENT = AttemptUsage(
    usage=SAMPLE_USAGE,
    cost=AttemptCost(micro_dollars=1234, price="exact", table="prices 7"),
    timings=AttemptTimings(first_token=210, total=1900),
    response_id="chatcmpl-7",
)


def build_samples() -> Mapping[str, KnownEvent]:
    """Return the events by name; a type with several forms has one sample per form."""
    return {
        **_build_session_samples(),
        **_build_turn_samples(),
        **_build_call_samples(),
        **_build_attempt_end_samples(),
        **_build_phase_samples(),
        **build_tool_samples(),
        **_build_resolution_samples(),
        **build_memory_samples(),
    }


def _build_session_samples() -> dict[str, KnownEvent]:
    return {
        "session-opened": SessionOpened(
            blueprint=BlueprintRef(name="assistant", version=3, digest=compute_digest("blueprint")),
            profile="default",
            attributes={"language": "de", "tags": ["a", 1, 2.5, None, True], "nested": {"a": {}}},
            reach=24_000,
            cartridge=compute_digest("cartridge"),
            origin=SessionOrigin(kind="fork", session="s-0", sequence=12),
            key={"client": "a/b", "conversation": "c.*.>"},
            memory=compute_digest("memory"),
            warnings=("policies/context.yaml:2: ...; the defaults stand in",),
        ),
        "session-opened-described": SessionOpened(
            blueprint=BlueprintRef(name="assistant", version=3, digest=compute_digest("blueprint")),
            profile="default",
            attributes={},
            reach=24_000,
            title=PlainText(text="Trip to Holm"),
            labels=("travel", "Büro Nord"),
            metadata={"thread": "t-17", "seen": None, "weights": [1, 2.5]},
        ),
        "session-opened-owned": SessionOpened(
            blueprint=BlueprintRef(name="assistant", version=3, digest=compute_digest("blueprint")),
            profile="default",
            attributes={},
            reach=24_000,
            owner="ann",
        ),
        "session-described": SessionDescribed(
            title=PlainText(text="Trip to Holm, by boat"),
            labels=("travel",),
            metadata={"thread": "t-17", "pinned": True},
        ),
        "session-described-empty": SessionDescribed(title=PlainText(text=""), labels=()),
        "share-changed": ShareChanged(user="ben", access="submit"),
        "share-changed-ended": ShareChanged(user="ben", access="none"),
        "blueprint-moved": BlueprintMoved(
            before=BlueprintRef(name="assistant", version=3, digest=compute_digest("blueprint")),
            blueprint=BlueprintRef(
                name="assistant", version=4, digest=compute_digest("the next one")
            ),
            attributes={"language": "de", "tone": "plain"},
            reach=48_000,
            cartridge=compute_digest("the next cartridge"),
            memory=compute_digest("the next memory"),
            released=("gemini", "openai"),
            warnings=("policies/context.yaml:2: ...; the defaults stand in",),
        ),
        "profile-switched": ProfileSwitched(
            profile="agent", before="default", reason="asked", model="openai/gpt-5-mini"
        ),
        "session-closed": SessionClosed(reason="done"),
        "prompts-snapshotted": PromptsSnapshotted(
            provider="openai",
            layers={
                "persona": PromptFile(digest=compute_digest("persona"), path="openai/persona.md")
            },
        ),
        "reply-redacted": ReplyRedacted(
            turn=3,
            reason="it said a name",
            rule="names",
            replacement=PlainText(text="[withheld]"),
            withheld=compute_digest("what it said"),
        ),
        "text-redacted": TextRedacted(
            turn=3,
            reason="a card number",
            rule="operator",
            replacement=PlainText(text="My card is [withheld]."),
            spans=(RedactedSpan(begin=11, end=27),),
        ),
        "erasure-begun": ErasureBegun(
            leaves="s:6-7;other:4-5",
            turns=(ErasedTurn(turn=3, of="turn"),),
            reason="request 4711",
            origin=ErasureOrigin(session="other", sequence=9),
            reached=("third",),
            with_replies=True,
        ),
        "content-erased": ContentErased(
            begun=12,
            generation=1,
            record_before=compute_digest("before"),
            record_after=compute_digest("after"),
            keys_left=compute_digest("left"),
        ),
    }


def _build_turn_samples() -> dict[str, KnownEvent]:
    return {
        "turn-submitted": TurnSubmitted(
            turn=3,
            text=SAMPLE_TEXT,
            inputs={"level": 2},
            references={"order": "A-17"},
            meta={"client": "web"},
            remembered=False,
        ),
        "turn-submitted-user": TurnSubmitted(
            turn=3, text=SAMPLE_TEXT, user="ann", reservation=SAMPLE_RESERVATION
        ),
        "turn-submitted-override": TurnSubmitted(
            turn=3, text=SAMPLE_TEXT, user="ann", overrides=(SAMPLE_OVERRIDE,)
        ),
        "turn-submitted-system": TurnSubmitted(turn=3, text=SAMPLE_TEXT, role="system"),
        "turn-submitted-masked": TurnSubmitted(turn=3, text=SAMPLE_TEXT, findings=SAMPLE_FINDINGS),
        "turn-submitted-handed": TurnSubmitted(
            turn=3, text=SAMPLE_TEXT, parent_inputs=(SAMPLE_PARENT_INPUT,)
        ),
        "turn-queued-handed": TurnQueued(
            turn=4, text=SAMPLE_TEXT, parent_inputs=(SAMPLE_PARENT_INPUT,)
        ),
        "turn-submitted-parts": TurnSubmitted(turn=3, text=SAMPLE_TEXT, parts=SAMPLE_PARTS),
        "turn-queued-parts": TurnQueued(turn=4, text=PlainText(text=""), parts=SAMPLE_PARTS[:1]),
        "turn-queued-masked": TurnQueued(turn=4, text=SAMPLE_TEXT, findings=SAMPLE_FINDINGS),
        "turn-queued": TurnQueued(
            turn=4,
            text=SAMPLE_TEXT,
            inputs={"level": 3},
            references={"order": "A-18"},
            meta={"client": "web"},
            remembered=False,
        ),
        "turn-queued-user": TurnQueued(
            turn=4, text=SAMPLE_TEXT, user="ann", reservation=SAMPLE_RESERVATION
        ),
        "turn-queued-override": TurnQueued(
            turn=4, text=SAMPLE_TEXT, user="ann", overrides=(SAMPLE_OVERRIDE,)
        ),
        "turn-released": TurnReleased(turn=4),
        "turn-completed": TurnCompleted(turn=3, call="3.1", text=SAMPLE_TEXT, finish="length"),
        "turn-completed-answer": TurnCompleted(
            turn=3,
            call="3.1",
            text=SAMPLE_TEXT,
            finish="stop",
            answer=ReplyAnswer(attempt=1, spent=SAMPLE_SPENT),
        ),
        "turn-completed-repaired": TurnCompleted(
            turn=3,
            call="3.1",
            text=PlainText(text="{}"),
            finish="stop",
            structured=True,
            answer=ReplyAnswer(
                attempt=1,
                spent=SAMPLE_SPENT,
                text=PlainText(text="{,}"),
                repairs=("a comma taken out",),
            ),
        ),
        "turn-completed-reasoning": TurnCompleted(
            turn=3,
            call="3.1",
            text=SAMPLE_TEXT,
            finish="stop",
            answer=ReplyAnswer(attempt=1, spent=SAMPLE_SPENT, reasoning=SAMPLE_REASONING),
        ),
        "turn-completed-parts": TurnCompleted(
            turn=3, call="3.1", text=SAMPLE_TEXT, finish="stop", parts=SAMPLE_PARTS
        ),
        "turn-completed-sealed": TurnCompleted(
            turn=3,
            call="3.1",
            text=SealedText(sealed="b3BlbiBtZQ==", key="k-3", digest=SAMPLE_HMAC, characters=7),
            finish="stop",
        ),
        "turn-completed-erased": TurnCompleted(
            turn=3,
            call="3.1",
            text=ErasedText(erased=True, digest=SAMPLE_HMAC, characters=7),
            finish="stop",
        ),
        "turn-completed-fallback": TurnCompleted(
            turn=3,
            text=SAMPLE_TEXT,
            fallback=ReplyFallback(code="timeout", detail="no answer in 60 s"),
        ),
        "turn-completed-reference": TurnCompleted(
            turn=3,
            call="3.1",
            text=SAMPLE_TEXT,
            finish="stop",
            answer=ReplyAnswer(attempt=1, spent=SAMPLE_SPENT),
            reference=InheritableReference(
                identifiers={"order": "A-17"}, intent="order_status", entity="orders"
            ),
        ),
        "turn-failed": TurnFailed(
            turn=3, code="timeout", detail="no answer in 60 s", retryable=True
        ),
        "turn-cancelled": TurnCancelled(turn=3, reason="interrupted"),
        "turn-excluded": TurnExcluded(turn=3),
        "turn-restored": TurnRestored(turn=3),
        "turn-displayed": TurnDisplayed(
            turn=3, text=SAMPLE_TEXT, reply=PlainText(text="<p>It is.</p>")
        ),
        "turn-completed-work": TurnCompleted(
            turn=3,
            call="3.4",
            text=SAMPLE_TEXT,
            finish="stop",
            work=PlainText(text="1. Find a hammer."),
        ),
    }


def _build_phase_samples() -> dict[str, KnownEvent]:
    signal_arguments = '{"signal":"understood"}'
    return {
        "choice-recorded": ChoiceRecorded(phase="choose", choice="share", label="They shared it"),
        "phase-entered": PhaseEntered(
            phase="debrief", before="talk", signal="max_reached", forced=True, turn=8
        ),
        "phase-entered-apart": PhaseEntered(
            phase="focus",
            before="ideate",
            signal="asked",
            carried=SAMPLE_TEXT,
            shared=("ideate", "focus"),
            hidden=("operate",),
        ),
        "turn-completed-exchange": TurnCompleted(
            turn=8,
            call="8.1",
            text=SAMPLE_TEXT,
            finish="tool_calls",
            exchange=PhaseExchange(
                phase="talk", kind="freeform", count=8, signal="understood", next="debrief"
            ),
        ),
        "tool-called": ToolCalled(
            turn=8, call="8.1", id="call_1", tool="transition_phase", arguments=signal_arguments
        ),
        "tool-returned-brief": ToolReturned(
            turn=4,
            call="4.2",
            id="call_1",
            tool="shop_look",
            outcome="answered",
            brief=SAMPLE_TEXT,
        ),
        "tool-returned": ToolReturned(
            turn=8,
            call="8.1",
            id="call_2",
            tool="erase_all",
            outcome="refused",
            detail="no tool 'erase_all' was offered",
        ),
    }


def _build_call_samples() -> dict[str, KnownEvent]:
    return {
        "attempt-started": AttemptStarted(turn=3, call="3.1", attempt=2, worker="w-1"),
        "context-assembled": ContextAssembled(
            turn=3,
            call="3.2",
            model="openai/gpt-5-mini",
            parameters={"temperature": 0.2, "stop": ["\n"]},
            manifest=build_manifest(),
            supersedes="3.1",
        ),
        "context-assembled-profile": ContextAssembled(
            turn=3,
            call="3.1",
            model="openai/gpt-5-mini",
            parameters={},
            manifest=build_manifest(),
            profile="agent",
        ),
        "context-assembled-handed": ContextAssembled(
            turn=3,
            call="3.1",
            model="openai/gpt-5-mini",
            parameters={},
            manifest=build_handed_manifest(),
        ),
        "context-assembled-corrected": ContextAssembled(
            turn=3,
            call="3.2",
            model="openai/gpt-5-mini",
            parameters={},
            manifest=build_corrected_manifest(),
            supersedes="3.1",
        ),
        "call-completed": CallCompleted(
            turn=3,
            call="3.1",
            attempt=2,
            finish="stop",
            digest=SAMPLE_TEXT.digest,
            characters=SAMPLE_TEXT.characters,
        ),
        "call-completed-spent": CallCompleted(
            turn=3,
            call="3.1",
            attempt=2,
            finish="tool_calls",
            digest=SAMPLE_TEXT.digest,
            characters=SAMPLE_TEXT.characters,
            text=SAMPLE_TEXT,
            spent=SAMPLE_SPENT,
        ),
        "call-completed-reasoning": CallCompleted(
            turn=3,
            call="3.1",
            attempt=2,
            finish="tool_calls",
            digest=SAMPLE_TEXT.digest,
            characters=SAMPLE_TEXT.characters,
            text=SAMPLE_TEXT,
            spent=SAMPLE_SPENT,
            reasoning=SAMPLE_REASONING,
        ),
        "call-completed-parts": CallCompleted(
            turn=3,
            call="3.1",
            attempt=2,
            finish="tool_calls",
            digest=SAMPLE_TEXT.digest,
            characters=SAMPLE_TEXT.characters,
            text=SAMPLE_TEXT,
            spent=SAMPLE_SPENT,
            parts=SAMPLE_PARTS,
        ),
    }


def _build_attempt_end_samples() -> dict[str, KnownEvent]:
    return {
        "attempt-ended": AttemptEnded(
            turn=3,
            call="3.1",
            attempt=2,
            outcome="failed",
            usage=SAMPLE_USAGE,
            cost=AttemptCost(micro_dollars=1234, price="exact", table="prices 7"),
            timings=AttemptTimings(first_token=210, total=1900),
            fault=AttemptFault(code="rate_limited", detail="429 from the provider", retryable=True),
            partial=PlainText(text="Ein Sa"),
        ),
        "attempt-ended-cache": AttemptEnded(
            turn=7,
            call="7.1",
            attempt=2,
            outcome="answered",
            usage=SAMPLE_USAGE,
            cost=AttemptCost(
                micro_dollars=1234,
                price="exact",
                table="prices 7",
                cache=CacheTerms(minimum=1_024, step=128, lifetime=300, spared=1_250_000),
            ),
        ),
        "attempt-ended-reasoning": AttemptEnded(
            turn=3,
            call="3.1",
            attempt=2,
            outcome="failed",
            usage=SAMPLE_USAGE,
            cost=AttemptCost(micro_dollars=1234, price="exact", table="prices 7"),
            reasoning=SAMPLE_REASONING,
        ),
        "attempt-ended-parts": AttemptEnded(
            turn=3,
            call="3.1",
            attempt=2,
            outcome="failed",
            usage=SAMPLE_USAGE,
            cost=AttemptCost(micro_dollars=1234, price="exact", table="prices 7"),
            partial=PlainText(text="Ein Satz mit Bild"),
            parts=SAMPLE_PARTS[:1],
        ),
        "attempt-ended-response": AttemptEnded(
            turn=3,
            call="3.1",
            attempt=3,
            outcome="answered",
            usage=SAMPLE_USAGE.model_copy(update={"reasoning_tokens": 48}),
            cost=AttemptCost(micro_dollars=1234, price="exact", table="prices 7"),
            timings=AttemptTimings(first_token=210, total=1900),
            response_id="chatcmpl-7",
        ),
        "attempt-ended-overflow": AttemptEnded(
            turn=3,
            call="3.1",
            attempt=1,
            outcome="failed",
            usage=TokenUsage(known="unknown"),
            cost=AttemptCost(price="unknown", table="none"),
            fault=AttemptFault(
                code="context_overflow",
                detail="too long",
                retryable=True,
                overflow=ContextOverflow(tokens=9_001, limit=8_192),
            ),
        ),
        "attempt-ended-ratings": AttemptEnded(
            turn=3,
            call="3.1",
            attempt=3,
            outcome="answered",
            usage=SAMPLE_USAGE,
            cost=AttemptCost(micro_dollars=1234, price="exact", table="prices 7"),
            timings=AttemptTimings(first_token=210, total=1900),
            ratings=(
                SafetyRating(category="HARM_CATEGORY_HARASSMENT", probability="LOW"),
                SafetyRating(
                    category="HARM_CATEGORY_DANGEROUS_CONTENT",
                    probability="HIGH",
                    severity="HARM_SEVERITY_HIGH",
                    blocked=True,
                ),
            ),
        ),
    }


def _build_resolution_samples() -> dict[str, KnownEvent]:
    return {
        "turn-resolved": TurnResolved(
            turn=3,
            resolver="orders",
            intent="order_status",
            entity="orders",
            identifiers={"order": "A-17"},
            used=True,
            reason="inherited",
            results=PlainText(text='[{"order":"A-17","state":"sent"}]'),
            meta={"rows": 1},
            answer=SAMPLE_TEXT,
        ),
        "knowledge-retrieved": KnowledgeRetrieved(
            turn=3,
            call="3.1",
            retrieval="cases",
            query=SAMPLE_TEXT,
            collections=("champion",),
            limits=RetrievalLimits(
                k=1,
                tokens=1_000,
                counter="o200k_base",
                min_score=0.6,
                min_efficiency=0.5,
                feedback="not_negative",
                confident_above=0.85,
            ),
            candidates=(
                RetrievalCandidate(
                    collection="champion",
                    entry="c-1",
                    revision=7,
                    kind="case",
                    title="Yields by fund",
                    digest=compute_digest("case"),
                    characters=40,
                    tokens=12,
                    efficiency=0.9,
                    feedback=2,
                    lexical=3.25,
                    vector=0.91,
                    fused=0.0328,
                    score=0.88,
                    confidence=0.91,
                    outcome="taken",
                ),
                RetrievalCandidate(
                    collection="champion",
                    entry="c-2",
                    revision=8,
                    kind="case",
                    digest=compute_digest("other case"),
                    characters=50,
                    feedback=-1,
                    fused=0.0164,
                    score=0.4,
                    confidence=0.7,
                    outcome="feedback",
                ),
            ),
            reranker="words-meaning-1",
            index="fts5+vec-1",
            embedder="hashing-1",
            knowledge_position=8,
            votes_position=120,
        ),
        "knowledge-retrieved-by-queries": KnowledgeRetrieved(
            turn=3,
            call="3.1",
            retrieval="guidelines",
            query=SAMPLE_TEXT,
            collections=("knowledge",),
            limits=RetrievalLimits(k=3),
            candidates=(
                RetrievalCandidate(
                    collection="knowledge",
                    entry="g-1",
                    revision=2,
                    kind="document",
                    digest=compute_digest("guideline"),
                    characters=9,
                    fused=0.0164,
                    score=0.0164,
                    confidence=0.8,
                    outcome="taken",
                    found_by=(QueryRank(query=2, rank=1, confidence=0.8),),
                ),
            ),
            origin="pattern",
            more_queries=(SAMPLE_TEXT,),
            unsearched=1,
        ),
        "knowledge-retrieved-by-votes": KnowledgeRetrieved(
            turn=3,
            call="3.1",
            retrieval="cases",
            query=SAMPLE_TEXT,
            collections=("champion",),
            limits=RetrievalLimits(k=1, feedback="not_negative"),
            candidates=(
                RetrievalCandidate(
                    collection="champion",
                    entry="c-2",
                    revision=8,
                    kind="case",
                    digest=compute_digest("other case"),
                    characters=50,
                    feedback=-3,
                    fused=0.0164,
                    score=0.4,
                    confidence=0.7,
                    outcome="feedback",
                    votes=(
                        CandidateVote(session="s-2", sequence=21, vote=0),
                        CandidateVote(session="s-1", sequence=12, vote=-1),
                    ),
                    more_votes=2,
                ),
            ),
            nothing_found="answer",
        ),
        "queries-requested": QueriesRequested(turn=3, retrieval="guidelines"),
        "queries-failed": QueriesFailed(
            turn=3, retrieval="guidelines", code="timeout_total", detail="no whole answer in 60 s"
        ),
        "knowledge-retrieved-by-a-call": KnowledgeRetrieved(
            turn=3,
            call="3.2",
            retrieval="guidelines",
            query=SAMPLE_TEXT,
            collections=("knowledge",),
            limits=RetrievalLimits(k=3),
            origin="call",
            query_call="3.1",
        ),
        "knowledge-retrieved-nothing": KnowledgeRetrieved(
            turn=3,
            call="3.1",
            retrieval="documents",
            query=SAMPLE_TEXT,
            collections=("knowledge",),
            limits=RetrievalLimits(k=3),
            nothing_found="answer",
            unavailable="unknown-collection",
        ),
        "feedback-given": FeedbackGiven(turn=3, vote="up", comment=SAMPLE_TEXT),
        "entry-feedback-given": EntryFeedbackGiven(
            turn=3,
            collection="champion",
            entry="c-1",
            revision=7,
            vote="down",
            comment=SAMPLE_TEXT,
        ),
        "reference-updated": ReferenceUpdated(
            turn=3, identifiers={"order": "A-17"}, intent="order_status", entity="orders"
        ),
    }


_SUMMARISED_TURNS = (TurnRange(first=1, last=4), TurnRange(first=6, last=9))


def build_memory_samples() -> dict[str, KnownEvent]:
    """Return samples of the memory family by name."""
    return {
        "summary-begun": SummaryBegun(
            turn=13, view="chat", turns=_SUMMARISED_TURNS, former=31, characters=18
        ),
        "history-summarised": HistorySummarised(
            turn=13,
            call="13.1",
            view="chat",
            summary=PlainText(text="They spoke of “naïve” things: 漢字, 🙂."),
            turns=_SUMMARISED_TURNS,
            former=31,
            phases=("focus", "ideate"),
            inputs=compute_digest("what was asked"),
            model="openai/gpt-5-mini",
            cost=AttemptCost(micro_dollars=412, price="exact", table="2026-11"),
        ),
        "summary-failed": SummaryFailed(
            turn=13, view="chat", code="timeout", detail="no answer in 60 s"
        ),
        "summary-undone": SummaryUndone(sequence=57, view="chat", cause="excluded", turn=3),
        "memory-purged": MemoryPurged(upto=13),
    }


def build_tool_samples() -> dict[str, KnownEvent]:
    """Return samples of turns with several calls by name: tools, plans, intermediate answers."""
    pin = ToolPin(digest=compute_digest("look"), server="shop", tool="look", idempotent=True)
    return {
        "tools-snapshotted": ToolsSnapshotted(
            profile="agent",
            digest=compute_digest("all of it"),
            tools={"shop_look": pin},
            full=compute_digest("in full"),
            names=compute_digest("by name"),
            left_out={"shop_buy": "not among the tools that are wanted"},
        ),
        "tools-snapshotted-alias": ToolsSnapshotted(
            profile="agent",
            digest=compute_digest("all of it"),
            tools={"shop_look.närmre": pin.model_copy(update={"alias": "shop_look_narmre"})},
            full=compute_digest("in full"),
            names=compute_digest("by name"),
        ),
        "tools-snapshotted-servers": ToolsSnapshotted(
            profile="agent",
            digest=compute_digest("all of it"),
            tools={"shop_look": pin},
            full=compute_digest("in full"),
            names=compute_digest("by name"),
            servers_left_out={"bank": "tools_unreachable: nobody listens at its address"},
        ),
        "tools-snapshotted-prompts": ToolsSnapshotted(
            profile="agent",
            digest=compute_digest("prompts alone"),
            tools={},
            full=compute_digest(""),
            names=compute_digest(""),
            prompts=("shop_greet",),
            prompts_text=compute_digest("- shop_greet: Greets."),
        ),
        "tool-list-changed": ToolListChanged(
            profile="agent",
            digest=compute_digest("another list"),
            added={"shop_saw": compute_digest("saw")},
            removed={"shop_pay": compute_digest("pay")},
            changed={
                "shop_look": ChangedTool(
                    before=compute_digest("look"), after=compute_digest("look closely")
                )
            },
            outcome="not_pinned",
        ),
        "schemas-requested": SchemasRequested(profile="agent"),
        "plan-made": PlanMade(turn=4, call="4.1", steps=1),
        "step-planned": StepPlanned(turn=4, step=1, goal=SAMPLE_TEXT, tools=("shop_look",)),
        "tool-called-step": ToolCalled(
            turn=4, call="4.2", id="call_1", tool="shop_look", arguments="{}", step=1
        ),
        "tool-called-alias": ToolCalled(
            turn=4,
            call="4.2",
            id="call_1",
            tool="shop_look.närmre",
            arguments="{}",
            alias="shop_look_narmre",
        ),
        "tool-called-signature": ToolCalled(
            turn=4,
            call="4.2",
            id="call_1",
            tool="shop_look",
            arguments="{}",
            signature=PlainText(text='{"extra_content":{"google":{"thought_signature":"c2ln"}}}'),
        ),
        "step-planned-given": StepPlanned(turn=4, step=1, goal=SAMPLE_TEXT, given=17),
        "tool-returned-summary": ToolReturned(
            turn=4,
            call="4.2",
            id="call_1",
            tool="shop_look",
            outcome="answered",
            summary=SAMPLE_TEXT,
        ),
        "approval-requested": ApprovalRequested(
            turn=4,
            approval=1,
            call="4.2",
            id="call_1",
            tool="shop_pay",
            deadline="2026-01-01T12:00:00.000000Z",
        ),
        "approval-decided": ApprovalDecided(
            turn=4,
            approval=1,
            call="4.2",
            id="call_1",
            tool="shop_pay",
            decision="refuse",
            reason="too expensive",
        ),
        "approval-decided-edited": ApprovalDecided(
            turn=4,
            approval=1,
            call="4.2",
            id="call_1",
            tool="shop_pay",
            decision="approve",
            shown=compute_digest('{"what": "hammer"}'),
            edited='{"what":"nail"}',
            approved=compute_digest('{"what":"nail"}'),
        ),
        "child-requested": ChildRequested(
            turn=4,
            call="4.1",
            id="call_1",
            profile="llm_only",
            session="child-0123",
            child_turn=2,
        ),
        "child-settled": ChildSettled(
            turn=4,
            call="4.1",
            id="call_1",
            profile="llm_only",
            session="child-0123",
            child_turn=2,
            outcome="failed",
            detail="its turn failed: deadline",
        ),
        "child-ended": ChildEnded(turn=2, parent="s-1"),
        "tool-started": ToolStarted(turn=4, call="4.2", id="call_1", tool="shop_look", attempt=3),
        "tool-started-approved": ToolStarted(
            turn=4,
            call="4.2",
            id="call_1",
            tool="shop_pay",
            attempt=3,
            ran=compute_digest('{"what":"nail"}'),
        ),
        "tool-returned-parts": ToolReturned(
            turn=4,
            call="4.2",
            id="call_1",
            tool="shop_look",
            outcome="answered",
            text=SAMPLE_TEXT,
            result=compute_digest("all that it gave"),
            parts=SAMPLE_PARTS,
        ),
        "tool-returned-whole": ToolReturned(
            turn=4,
            call="4.2",
            id="call_1",
            tool="shop_look",
            outcome="answered",
            text=SAMPLE_TEXT,
            characters=4_980_000,
            treatment="condensed",
            whole=WholeResult(digest=compute_digest("all that it gave"), size=5_000_000),
        ),
        "tool-returned-answered": ToolReturned(
            turn=4,
            call="4.2",
            id="call_1",
            tool="shop_look",
            outcome="answered",
            text=SAMPLE_TEXT,
            result=compute_digest("all that it gave"),
            characters=48_000,
            treatment="condensed",
            milliseconds=70,
        ),
        "call-completed-text": CallCompleted(
            turn=4,
            call="4.2",
            attempt=2,
            finish="tool_calls",
            digest=SAMPLE_TEXT.digest,
            characters=SAMPLE_TEXT.characters,
            text=SAMPLE_TEXT,
            repairs=("taken out of a block of code",),
        ),
    }


SAMPLE_SEGMENT_TEXT = SegmentText(
    digest=compute_digest("He wipes a glass."),
    characters=17,
    tier=1,
    type="npc_cue",
    priority="high",
)


SAMPLE_MEDIA_RESERVATION = MediaReservation(
    digest=compute_digest("a picture"), size=40_000, at="2026-11-23T08:00:00+00:00"
)

SAMPLE_QUOTA_RESERVATION = QuotaReservation(
    id="r-1",
    session="s-1",
    turn=3,
    after=6,
    at="2026-01-31T23:59:59.000000Z",
    input_tokens=8_000,
    output_tokens=4_096,
    child=True,
)

SAMPLE_BALANCE = QuotaBalance(
    input_tokens=812,
    output_tokens=64,
    hour="2026-01-31T23",
    hour_requests=2,
    day="2026-01-31",
    day_requests=5,
    reservations=(SAMPLE_QUOTA_RESERVATION,),
)


SAMPLE_FAILURE = DeliveryFailure(
    at="2026-01-31T23:59:59.000000Z",
    position=812,
    status=503,
    detail="the receiver answered 503",
)

SAMPLE_WEBHOOK_PLACE = WebhookPlace(
    after=840,
    behind=(
        SessionPlace(
            session="s-1",
            after=800,
            upto=839,
            tries=8,
            failing_since="2026-01-31T22:59:59.000000Z",
            next_try="2026-02-01T00:10:00.000000Z",
            given_up=True,
            failure=SAMPLE_FAILURE,
        ),
    ),
    delivered=512,
    delivered_at="2026-01-31T23:59:58.000000Z",
    stopped=SAMPLE_FAILURE,
    handled=3,
    claim=2,
)


def _build_webhook_samples() -> Mapping[str, LibraryEvent]:
    name, webhook_id = "billing", "5e5e5e5e5e5e5e5e"
    return {
        "webhook-added": WebhookAdded(
            name=name,
            id=webhook_id,
            url="https://hooks.example.org/turnlog",
            filter=WebhookFilter(
                types=("turn-completed", "turn-failed"),
                blueprint="support",
                attributes={"locale": "lt"},
            ),
            after=412,
            key="0123456789abcdef",
        ),
        "webhook-paused": WebhookPaused(name=name, id=webhook_id),
        "webhook-resumed": WebhookResumed(name=name, id=webhook_id),
        "webhook-redelivery-requested": WebhookRedeliveryRequested(
            name=name, id=webhook_id, session="s-1"
        ),
        "webhook-removed": WebhookRemoved(name=name, id=webhook_id),
        "webhook-claimed": WebhookClaimed(
            name=name, deliverer="host-1", place=SAMPLE_WEBHOOK_PLACE
        ),
        "webhook-advanced": WebhookAdvanced(name=name, place=SAMPLE_WEBHOOK_PLACE),
        "webhook-gave-up": WebhookGaveUp(
            name=name, session="s-1", failure=SAMPLE_FAILURE, place=SAMPLE_WEBHOOK_PLACE
        ),
    }


def build_library_samples() -> Mapping[str, LibraryEvent]:
    """Return one event of every library type by name, with every field filled."""
    innkeeper = NewSegment(
        id=7,
        scope="npc",
        ref="npc.innkeeper",
        locale="lt-LT",
        variant="b",
        active=False,
        text=SAMPLE_SEGMENT_TEXT,
    )
    case = KnowledgeEntry(
        id="late-ships",
        kind="case",
        title="Which ships are late?",
        digest=compute_digest("Call list_ships, then compare the times."),
        characters=40,
        source="cases/harbour.csv",
        tags=("harbour",),
        attributes={"author": "ann"},
        efficiency=0.75,
    )
    return {
        "segments-added": SegmentsAdded(segments=(innkeeper,)),
        "segments-edited": SegmentsEdited(
            versions=(NewSegmentVersion(id=7, version=2, variant="c", text=SAMPLE_SEGMENT_TEXT),)
        ),
        "segments-deactivated": SegmentsDeactivated(segments=(7, 9), variant="b"),
        "segments-activated": SegmentsActivated(segments=(7,), variant="b"),
        "knowledge-added": KnowledgeAdded(collection="query-cases", entries=(case,)),
        "knowledge-edited": KnowledgeEdited(collection="query-cases", entries=(case,)),
        "source-erasure-begun": SourceErasureBegun(
            leaves="_library-knowledge:3,7-8",
            source="document:query-cases/late-ships",
            reason="request 4711",
            collection="query-cases",
            entries=("late-ships",),
            segment=12,
        ),
        "source-erased": SourceErased(
            begun=9,
            generation=1,
            record_before=compute_digest("before"),
            record_after=compute_digest("after"),
            keys_left=compute_digest("left"),
        ),
        "knowledge-removed": KnowledgeRemoved(collection="query-cases", entries=("late-ships",)),
        "override-set": OverrideSet(
            user="ann", blueprint="uderia", override=SAMPLE_OVERRIDE, characters=24
        ),
        "override-removed": OverrideRemoved(
            user="ann", blueprint="uderia", override=SAMPLE_OVERRIDE
        ),
        "media-limit-edited": MediaLimitEdited(balance=MediaBalance(limit=50_000_000)),
        "media-reserved": MediaReserved(
            reservation=SAMPLE_MEDIA_RESERVATION,
            balance=MediaBalance(
                limit=50_000_000,
                stored=1_200,
                items=1,
                reservations=(SAMPLE_MEDIA_RESERVATION,),
            ),
        ),
        "media-settled": MediaSettled(
            digest=SAMPLE_MEDIA_RESERVATION.digest,
            is_stored=True,
            balance=MediaBalance(limit=50_000_000, stored=41_200, items=2),
        ),
        "media-counted": MediaCounted(
            balance=MediaBalance(limit=50_000_000, stored=61_200, items=3)
        ),
        "quota-edited": QuotaEdited(
            user="ann",
            limits=QuotaLimits(
                input_tokens=100_000,
                output_tokens=20_000,
                requests_per_hour=10,
                requests_per_day=50,
            ),
        ),
        "quota-reserved": QuotaReserved(
            user="ann", reservation=SAMPLE_QUOTA_RESERVATION, balance=SAMPLE_BALANCE
        ),
        "quota-settled": QuotaSettled(
            user="ann",
            reservation="r-2",
            input_tokens=812,
            output_tokens=64,
            balance=SAMPLE_BALANCE,
        ),
        "quota-released": QuotaReleased(user="ann", reservation="r-2", balance=SAMPLE_BALANCE),
        **_build_webhook_samples(),
        **build_alert_rule_samples(),
        **build_key_samples(),
        **build_retention_samples(),
    }
