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
from turnlog.events.model.call_events import (
    AttemptCost,
    AttemptEnded,
    AttemptFault,
    AttemptStarted,
    AttemptTimings,
    CallCompleted,
    ContextAssembled,
    TokenUsage,
)
from turnlog.events.model.manifest import (
    AppliedTrimStep,
    CounterRef,
    HistorySource,
    Manifest,
    PromptPart,
)
from turnlog.events.model.phase_events import PhaseEntered
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.session_events import (
    BlueprintMoved,
    BlueprintRef,
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
from turnlog.events.store.append_outcomes import BatchAppended
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.store.ports import EventLog, RawEvent

DIGEST = compute_digest("anything")


def opened(blueprint: str = "assistant", **attributes: str | int | bool) -> SessionOpened:
    ref = BlueprintRef(name=blueprint, version=1, digest=DIGEST)
    return SessionOpened(blueprint=ref, profile="chat", attributes={**attributes}, reach=0)


def submitted(turn: int, text: str) -> TurnSubmitted:
    return TurnSubmitted(turn=turn, text=PlainText(text=text))


def completed(turn: int, text: str, call: str | None = None) -> TurnCompleted:
    return TurnCompleted(
        turn=turn, call=call or f"{turn}.1", text=PlainText(text=text), finish="stop"
    )


def part(component: str, *, tokens: int, message: int | None = 0, turns: int = 0) -> PromptPart:
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


def assembled(
    turn: int,
    call: str,
    *parts: PromptPart,
    steps: tuple[AppliedTrimStep, ...] = (),
    kind: str = "reply",
    profile: str | None = None,
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


def ended(
    turn: int, attempt: int, *, tokens: int | None, micro_dollars: int | None, call: str = ""
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
        ),
        cost=AttemptCost(
            micro_dollars=micro_dollars,
            price="exact" if micro_dollars is not None else "unknown",
            table="t1",
        ),
    )


def started(turn: int, attempt: int, call: str = "") -> AttemptStarted:
    return AttemptStarted(turn=turn, call=call or f"{turn}.1", attempt=attempt, worker="w1")


@dataclass
class Story:
    """A session whose events are appended batch by batch."""

    log: EventLog
    session: str = "s"
    tenant: str = "t"
    last: RecordedEvent | None = None
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    async def tell(
        self, *events: KnownEvent, command: codec.CommandRef | None = None
    ) -> Sequence[RecordedEvent]:
        """Append events as one batch, a second after the one before."""
        self.at += timedelta(seconds=1)
        after = self.last.head if self.last else None
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
        self.last = outcome.events[-1]
        return outcome.events


def inject(log: MemoryLog, stored: bytes, session: str = "s", tenant: str = "t") -> int:
    """Append raw bytes that no release wrote and return their stream sequence."""
    place = len(log.stored) + 1
    log.stored.append(RawEvent(f"session.{tenant}.{session}.turn", place, stored))
    return place


async def everything(log: EventLog) -> list[RawEvent]:
    """Give all that is on a log."""
    return [raw async for bulk in log.stream_raw_events(None, 0, live=False) for raw in bulk]


def _assembled(turn: int, call: str, parts: Sequence[PromptPart]) -> ContextAssembled:
    return assembled(turn, call, *parts)


# Few values of each, so that different events meet the same row.
_turns = st.integers(1, 2)
_attempts = st.integers(1, 2)
_words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.just("nul \0 nul")
_calls = st.tuples(_turns, st.integers(1, 2)).map(lambda pair: f"{pair[0]}.{pair[1]}")
_content: st.SearchStrategy[Content] = st.one_of(
    st.builds(PlainText, text=_words),
    st.just(SealedText(sealed="c2VhbGVk", key="k", digest=DIGEST, characters=6)),
    st.just(ErasedText(erased=True, digest=DIGEST, characters=6)),
)
_figures = st.none() | st.integers(0, 10_000)
_parts = st.builds(
    part,
    st.sampled_from(["system", "history", "input"]),
    tokens=st.integers(0, 99),
    message=st.none() | st.integers(0, 5),
    turns=st.integers(0, 5),
)
_events: st.SearchStrategy[KnownEvent] = st.one_of(
    st.builds(TurnSubmitted, turn=_turns, text=st.none() | _content),
    st.builds(TurnQueued, turn=_turns, text=st.none() | _content),
    st.builds(TurnReleased, turn=_turns),
    st.builds(
        TurnCompleted,
        turn=_turns,
        call=_calls,
        text=_content,
        finish=st.sampled_from(["stop", "length"]),
    ),
    st.builds(TurnFailed, turn=_turns, code=_words, detail=_words, retryable=st.booleans()),
    st.builds(TurnCancelled, turn=_turns, reason=st.sampled_from(["cancelled", "closed"])),
    st.builds(TurnExcluded, turn=_turns),
    st.builds(TurnRestored, turn=_turns),
    st.builds(
        ReplyRedacted, turn=_turns, reason=_words, rule=st.just("operator"), replacement=_content
    ),
    st.builds(AttemptStarted, turn=_turns, call=_calls, attempt=_attempts, worker=_words),
    st.builds(
        AttemptEnded,
        turn=_turns,
        call=_calls,
        attempt=_attempts,
        outcome=st.sampled_from(["answered", "failed", "cancelled", "lost"]),
        usage=st.builds(
            TokenUsage,
            known=st.sampled_from(["reported", "estimated", "unknown"]),
            input_tokens=_figures,
            output_tokens=_figures,
        ),
        cost=st.builds(
            AttemptCost, micro_dollars=_figures, price=st.just("exact"), table=st.just("t")
        ),
        timings=st.none()
        | st.builds(AttemptTimings, first_token=_figures, total=st.integers(0, 9)),
        fault=st.none()
        | st.builds(AttemptFault, code=_words, detail=_words, retryable=st.booleans()),
    ),
    st.builds(
        CallCompleted,
        turn=_turns,
        call=_calls,
        attempt=_attempts,
        finish=st.just("stop"),
        digest=st.just(DIGEST),
        characters=st.integers(0, 99),
    ),
    st.builds(
        _assembled,
        _turns,
        _calls,
        st.lists(_parts, max_size=4),
    ),
    st.builds(
        PhaseEntered,
        phase=_words,
        before=st.none() | _words,
        signal=st.none() | _words,
        forced=st.booleans(),
        turn=st.none() | _turns,
    ),
    st.builds(ChoiceRecorded, phase=_words, choice=_words),
    st.builds(
        BlueprintMoved,
        before=st.just(BlueprintRef(name="assistant", version=1, digest=DIGEST)),
        blueprint=st.just(BlueprintRef(name="assistant", version=2, digest=DIGEST)),
        attributes=st.just({}),
        reach=st.just(0),
    ),
    st.just(SessionClosed(reason="done")),
)


@dataclass(frozen=True, slots=True)
class Step:
    """The next batch and its session; bytes are an undecodable event."""

    session: str
    events: tuple[KnownEvent, ...] | bytes
    command: codec.CommandRef | None = None


_commands = st.none() | st.builds(
    codec.CommandRef, key=st.sampled_from("abc"), hash=st.just(DIGEST)
)
_steps = st.builds(
    Step,
    session=st.sampled_from(["s1", "s2"]),
    events=st.lists(_events, min_size=1, max_size=4).map(tuple)
    | st.sampled_from([b"junk", b'{"specversion": "1.0"}']),
    command=_commands,
)
histories = st.lists(_steps, max_size=30)
"""Steps of two sessions, interleaved."""


@dataclass
class Telling:
    """Sessions whose events are appended together."""

    log: MemoryLog = field(default_factory=MemoryLog)
    stories: dict[str, Story] = field(default_factory=dict[str, Story])

    async def tell(self, steps: Sequence[Step]) -> MemoryLog:
        """Append all steps; each session is opened when it first occurs."""
        for step in steps:
            if isinstance(step.events, bytes):
                inject(self.log, step.events, step.session)
                continue
            if step.session not in self.stories:
                self.stories[step.session] = Story(self.log, step.session)
                await self.stories[step.session].tell(opened(language="de", level=3))
            await self.stories[step.session].tell(*step.events, command=step.command)
        return self.log
