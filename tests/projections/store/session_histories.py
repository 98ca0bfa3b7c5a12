"""Event histories for the read models: built event by event, or drawn at random.

Drawn histories ignore the session's rules. The rows must follow from any events, and an unlikely
history shows a wrong order of statements better than a usual one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from turnlog.events import codec
from turnlog.events.content import Content, ErasedText, PlainText, SealedText, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.attempt_figures import (
    AttemptCost,
    AttemptTimings,
    CacheTerms,
    TokenUsage,
)
from turnlog.events.model.call_events import (
    AttemptEnded,
    AttemptFault,
    AttemptStarted,
    CallCompleted,
    ContextAssembled,
)
from turnlog.events.model.manifest import (
    AppliedTrimStep,
    CachePrefix,
    CounterRef,
    HistorySource,
    Manifest,
    PromptPart,
)
from turnlog.events.model.redaction_events import ReplyRedacted, TextRedacted
from turnlog.events.model.session_events import (
    BlueprintMoved,
    BlueprintRef,
    PhaseEntered,
    SessionClosed,
    SessionOpened,
)
from turnlog.events.model.turn_events import (
    ChoiceRecorded,
    TurnCancelled,
    TurnCompleted,
    TurnExcluded,
    TurnFailed,
    TurnQueued,
    TurnReleased,
    TurnRestored,
    TurnSubmitted,
)
from turnlog.events.registry import KnownEvent
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.store.ports import BatchAppended, EventLog, RawEvent

SAMPLE_DIGEST = compute_digest("anything")


def build_opened(blueprint: str = "assistant", **attributes: str | int | bool) -> SessionOpened:
    ref = BlueprintRef(name=blueprint, version=1, digest=SAMPLE_DIGEST)
    return SessionOpened(blueprint=ref, profile="chat", attributes={**attributes}, reach=0)


def build_submitted(turn: int, text: str) -> TurnSubmitted:
    return TurnSubmitted(turn=turn, text=PlainText(text=text))


def build_completed(turn: int, text: str, call: str | None = None) -> TurnCompleted:
    return TurnCompleted(
        turn=turn, call=call or f"{turn}.1", text=PlainText(text=text), finish="stop"
    )


def build_part(
    component: str, *, tokens: int, message: int | None = 0, turns: int = 0
) -> PromptPart:
    run = HistorySource(view="recent", first=1, last=turns) if turns else None
    return PromptPart(
        layer=component,
        component=component,
        source=run,
        message=message,
        role=None if message is None else "system",
        characters=4 * tokens,
        tokens=tokens,
        treatment="dropped" if message is None else "kept",
    )


def build_assembled(
    turn: int,
    call: str,
    *parts: PromptPart,
    steps: tuple[AppliedTrimStep, ...] = (),
    kind: str = "reply",
    profile: str | None = None,
    prefix: CachePrefix | None = None,
) -> ContextAssembled:
    manifest = Manifest(
        kind=kind,
        at="2026-01-01T00:00:00.000000Z",
        sequence=1,
        assembler=1,
        counter=CounterRef(name="chars/4", exact=False),
        budget=1000,
        tokens=sum(p.tokens for p in parts if p.is_included),
        parts=parts,
        steps=steps,
        prefix=prefix,
        digest=compute_digest(call),
    )
    return ContextAssembled(
        turn=turn,
        call=call,
        model="scripted/demo",
        profile=profile,
        parameters={},
        manifest=manifest,
    )


def build_ended(
    turn: int,
    attempt: int,
    *,
    tokens: int | None,
    micro_dollars: int | None,
    call: str = "",
    cached: int = 0,
    terms: CacheTerms | None = None,
) -> AttemptEnded:
    return AttemptEnded(
        turn=turn,
        call=call or f"{turn}.1",
        attempt=attempt,
        outcome="answered" if tokens is not None else "lost",
        usage=TokenUsage(
            known="unknown" if tokens is None else "reported",
            input_tokens=tokens,
            output_tokens=tokens,
            cached_tokens=cached,
        ),
        cost=AttemptCost(
            micro_dollars=micro_dollars,
            price="exact" if micro_dollars is not None else "unknown",
            table="t1",
            cache=terms,
        ),
    )


def build_started(turn: int, attempt: int, call: str = "") -> AttemptStarted:
    return AttemptStarted(turn=turn, call=call or f"{turn}.1", attempt=attempt, worker="w1")


@dataclass(kw_only=True)
class StoredSession:
    """A session whose events are appended batch by batch."""

    log: EventLog
    session: str = "s"
    tenant: str = "t"
    last_event: RecordedEvent | None = None
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    async def append_events(
        self, *events: KnownEvent, command: codec.CommandRef | None = None
    ) -> Sequence[RecordedEvent]:
        """Append events as one batch, a second after the one before."""
        self.at += timedelta(seconds=1)
        after = self.last_event.head if self.last_event else None
        number = after.sequence if after else 0
        drafts = [
            codec.EventDraft(
                event=event,
                id=f"{self.tenant}-{self.session}-{number + behind}",
                at=self.at,
                source="/test",
                actor="tester",
                command=command,
                traceparent=f"00-{number + 1:032x}-{behind + 1:016x}-01",
            )
            for behind, event in enumerate(events)
        ]
        outcome = await self.log.append_batch(
            codec.encode_batch(self.tenant, self.session, after, drafts)
        )
        assert isinstance(outcome, BatchAppended), outcome
        self.last_event = outcome.events[-1]
        return outcome.events


def append_raw(log: MemoryLog, stored: bytes, session: str = "s", tenant: str = "t") -> int:
    """Append raw bytes that no release wrote and return their stream sequence."""
    place = len(log.stored) + 1
    log.stored.append(RawEvent(f"session.{tenant}.{session}.turn", place, stored))
    return place


async def read_all_events(log: EventLog) -> list[RawEvent]:
    """Give all that is on a log."""
    return [raw async for bulk in log.stream_raw_events(None, 0, live=False) for raw in bulk]


def _build_context(turn: int, call: str, parts: Sequence[PromptPart]) -> ContextAssembled:
    return build_assembled(turn, call, *parts)


# Few values of each, so that different events meet the same row.
_TURNS = st.integers(1, 2)

_ATTEMPTS = st.integers(1, 2)

_WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.just("nul \0 nul")

_CALLS = st.tuples(_TURNS, st.integers(1, 2)).map(lambda pair: f"{pair[0]}.{pair[1]}")

_CONTENT: st.SearchStrategy[Content] = st.one_of(
    st.builds(PlainText, text=_WORDS),
    st.just(SealedText(sealed="c2VhbGVk", key="k", digest=SAMPLE_DIGEST, characters=6)),
    st.just(ErasedText(erased=True, digest=SAMPLE_DIGEST, characters=6)),
)

_FIGURES = st.none() | st.integers(0, 10_000)

_PARTS = st.builds(
    build_part,
    st.sampled_from(["system", "history", "input"]),
    tokens=st.integers(0, 99),
    message=st.none() | st.integers(0, 5),
    turns=st.integers(0, 5),
)

_EVENTS: st.SearchStrategy[KnownEvent] = st.one_of(
    st.builds(TurnSubmitted, turn=_TURNS, text=st.none() | _CONTENT),
    st.builds(TurnQueued, turn=_TURNS, text=st.none() | _CONTENT),
    st.builds(TurnReleased, turn=_TURNS),
    st.builds(
        TurnCompleted,
        turn=_TURNS,
        call=_CALLS,
        text=_CONTENT,
        finish=st.sampled_from(["stop", "length"]),
    ),
    st.builds(TurnFailed, turn=_TURNS, code=_WORDS, detail=_WORDS, retryable=st.booleans()),
    st.builds(TurnCancelled, turn=_TURNS, reason=st.sampled_from(["cancelled", "closed"])),
    st.builds(TurnExcluded, turn=_TURNS),
    st.builds(TurnRestored, turn=_TURNS),
    st.builds(
        ReplyRedacted, turn=_TURNS, reason=_WORDS, rule=st.just("operator"), replacement=_CONTENT
    ),
    st.builds(
        TextRedacted, turn=_TURNS, reason=_WORDS, rule=st.just("operator"), replacement=_CONTENT
    ),
    st.builds(AttemptStarted, turn=_TURNS, call=_CALLS, attempt=_ATTEMPTS, worker=_WORDS),
    st.builds(
        AttemptEnded,
        turn=_TURNS,
        call=_CALLS,
        attempt=_ATTEMPTS,
        outcome=st.sampled_from(["answered", "failed", "cancelled", "lost"]),
        usage=st.builds(
            TokenUsage,
            known=st.sampled_from(["reported", "estimated", "unknown"]),
            input_tokens=_FIGURES,
            output_tokens=_FIGURES,
        ),
        cost=st.builds(
            AttemptCost,
            micro_dollars=_FIGURES,
            price=st.just("exact"),
            table=st.just("t"),
            cache=st.none()
            | st.just(CacheTerms(minimum=10, step=4, lifetime=60, spared=1_000_000)),
        ),
        timings=st.none()
        | st.builds(AttemptTimings, first_token=_FIGURES, total=st.integers(0, 9)),
        fault=st.none()
        | st.builds(AttemptFault, code=_WORDS, detail=_WORDS, retryable=st.booleans()),
    ),
    st.builds(
        CallCompleted,
        turn=_TURNS,
        call=_CALLS,
        attempt=_ATTEMPTS,
        finish=st.just("stop"),
        digest=st.just(SAMPLE_DIGEST),
        characters=st.integers(0, 99),
    ),
    st.builds(
        _build_context,
        _TURNS,
        _CALLS,
        st.lists(_PARTS, max_size=4),
    ),
    st.builds(
        PhaseEntered,
        phase=_WORDS,
        before=st.none() | _WORDS,
        signal=st.none() | _WORDS,
        forced=st.booleans(),
        turn=st.none() | _TURNS,
    ),
    st.builds(ChoiceRecorded, phase=_WORDS, choice=_WORDS),
    st.builds(
        BlueprintMoved,
        before=st.just(BlueprintRef(name="assistant", version=1, digest=SAMPLE_DIGEST)),
        blueprint=st.just(BlueprintRef(name="assistant", version=2, digest=SAMPLE_DIGEST)),
        attributes=st.just({}),
        reach=st.just(0),
    ),
    st.just(SessionClosed(reason="done")),
)


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """The next batch and its session; bytes are an undecodable event."""

    session: str
    events: tuple[KnownEvent, ...] | bytes
    command: codec.CommandRef | None = None


_COMMANDS = st.none() | st.builds(
    codec.CommandRef, key=st.sampled_from("abc"), hash=st.just(SAMPLE_DIGEST)
)

_STEPS = st.builds(
    HistoryStep,
    session=st.sampled_from(["s1", "s2"]),
    events=st.lists(_EVENTS, min_size=1, max_size=4).map(tuple)
    | st.sampled_from([b"junk", b'{"specversion": "1.0"}']),
    command=_COMMANDS,
)

HISTORIES = st.lists(_STEPS, max_size=30)
"""Steps of two sessions, interleaved."""


@dataclass
class StoredHistory:
    """Sessions whose events are appended together."""

    log: MemoryLog = field(default_factory=MemoryLog)
    stored_sessions: dict[str, StoredSession] = field(default_factory=dict[str, StoredSession])

    async def append_steps(self, steps: Sequence[HistoryStep]) -> MemoryLog:
        """Append all steps; each session is opened when it first occurs."""
        for step in steps:
            if isinstance(step.events, bytes):
                append_raw(self.log, step.events, step.session)
                continue
            if step.session not in self.stored_sessions:
                self.stored_sessions[step.session] = StoredSession(
                    log=self.log, session=step.session
                )
                await self.stored_sessions[step.session].append_events(
                    build_opened(language="de", level=3)
                )
            await self.stored_sessions[step.session].append_events(
                *step.events, command=step.command
            )
        return self.log
