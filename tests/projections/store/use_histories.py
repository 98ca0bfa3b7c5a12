"""Random sessions whose prompts include texts of each other, and a plain search through all of it.

The search knows nothing of the index. It goes over every event again and again and notes which
texts and which calls have the source, until a round finds nothing new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.projections.store.session_histories import (
    StoredSession,
    build_assembled,
    build_completed,
    build_submitted,
)
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.fork_copy import copy_events
from turnlog.events.model.attempt_figures import AttemptCost
from turnlog.events.model.call_events import CallCompleted, ContextAssembled
from turnlog.events.model.child_events import ChildRequested
from turnlog.events.model.manifest import (
    BlobSource,
    BlueprintTextSource,
    EventTextSource,
    HistorySource,
    KnowledgeSource,
    ParentInputSource,
    PartSource,
    PromptPart,
    ResolutionSource,
    SegmentSource,
)
from turnlog.events.model.memory_events import HistorySummarised, TurnRange
from turnlog.events.model.redaction_events import ReplyRedacted, TextRedacted
from turnlog.events.model.session_events import (
    BlueprintMoved,
    BlueprintRef,
    PhaseEntered,
    SessionOpened,
    SessionOrigin,
)
from turnlog.events.model.tool_events import StepPlanned, ToolCalled, ToolReturned
from turnlog.events.model.turn_events import (
    ChoiceRecorded,
    TurnCompleted,
    TurnQueued,
    TurnResolved,
    TurnSubmitted,
)
from turnlog.events.registry import KnownEvent
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.store.ports import BatchAppended, EventLog
from turnlog.projections.uses.use_records import EventNode, StoredSource, TextNode, TurnNode

DIGESTS = [compute_digest(name) for name in "abc"]

LABELS = ["red", "blue"]

REQUESTS = ["r1", "r2"]

CHILD, PARENT, FORK, SINGLE = "child", "parent", "fork", "single"

_COST = AttemptCost(micro_dollars=None, price="unknown", table="t")

_TURNS = st.integers(1, 4)

_SEQUENCES = st.integers(1, 16)

_DIGESTS = st.sampled_from(DIGESTS)

_RANGES = st.tuples(_TURNS, st.integers(0, 2)).map(lambda pair: (pair[0], pair[0] + pair[1]))

_PATHS = st.sampled_from(["", "inputs.a", "attributes.a", "session.choices", "cartridge.a", "turn"])


def _build_run(turns: tuple[int, int], work: bool) -> HistorySource:  # noqa: FBT001 - drawn
    return HistorySource(view="v", first=turns[0], last=turns[1], work=work)


def _build_part(source: PartSource, is_included: bool) -> PromptPart:  # noqa: FBT001 - drawn
    role = "system" if is_included else None
    return PromptPart(layer="a", component="a", source=source, message=0, role=role)


def _build_segment(number: int, version: int) -> SegmentSource:
    digest = DIGESTS[(number + version) % len(DIGESTS)]
    return SegmentSource(segment=number, version=version, digest=digest, scope="npc")


def _build_entry(entry: str, revision: int, retrieved: int) -> KnowledgeSource:
    return KnowledgeSource(
        retrieved=retrieved,
        collection="books",
        entry=entry,
        revision=revision,
        digest=DIGESTS[(len(entry) + revision) % len(DIGESTS)],
        score=1.0,
        confidence=1.0,
    )


# A version has one text, so its digest is not drawn.
_SOURCES: st.SearchStrategy[PartSource] = st.one_of(
    st.builds(BlobSource, digest=_DIGESTS, path=st.just("a.md")),
    st.builds(_build_segment, st.integers(1, 2), st.integers(1, 2)),
    st.builds(_build_entry, st.sampled_from(["e1", "e2"]), st.integers(1, 2), _SEQUENCES),
    st.builds(EventTextSource, sequence=_SEQUENCES, field=st.just("text")),
    st.builds(EventTextSource, sequence=_SEQUENCES, field=st.just("text")),
    st.builds(
        ResolutionSource,
        resolution=_SEQUENCES,
        lines=st.dictionaries(st.sampled_from(LABELS), st.just("a"), max_size=2),
    ),
    st.builds(_build_run, _RANGES, st.booleans()),
    st.builds(BlueprintTextSource, text=st.just("a"), of=st.lists(_PATHS, max_size=2).map(tuple)),
)

_PARTS = st.builds(_build_part, _SOURCES, st.integers(0, 5).map(bool))


@st.composite
def _draw_event(
    draw: DrawFn, sequence: int, calls: list[str], opened: SessionOpened, *, is_child: bool
) -> KnownEvent:
    """Draw an event; a call has an id of its own, and others refer to calls before them."""
    turn, call = draw(_TURNS), draw(st.sampled_from([*calls, "0.0"]))
    request = draw(st.sampled_from(REQUESTS))
    first, last = draw(_RANGES)
    text = PlainText(text="a")
    ref = opened.blueprint.model_copy(update={"digest": draw(_DIGESTS)})
    assembled = build_assembled(turn, f"{turn}.{sequence}", *draw(st.lists(_PARTS, max_size=3)))
    events: list[KnownEvent] = [
        *[assembled] * 4,
        build_submitted(turn, "a"),
        TurnQueued(turn=turn, text=text),
        build_completed(turn, "a", call),
        CallCompleted(
            turn=turn, call=call, attempt=1, finish="stop", digest=DIGESTS[0], characters=1
        ),
        ReplyRedacted(turn=turn, reason="a", rule="operator", replacement=text),
        TextRedacted(turn=turn, reason="a", rule="operator", replacement=text),
        ToolCalled(turn=turn, call=call, id=request, tool="t", arguments="{}"),
        ToolReturned(turn=turn, call=call, id=request, tool="t", outcome="answered", text=text),
        StepPlanned(turn=turn, step=1, goal=text, loop=draw(st.none() | _SEQUENCES)),
        TurnResolved(turn=turn, resolver="r", results=text, answer=text, reason="a"),
        HistorySummarised(
            turn=turn,
            call=call,
            view="v",
            summary=text,
            turns=(TurnRange(first=first, last=last), TurnRange(first=last + 2, last=last + 3)),
            inputs=DIGESTS[0],
            model="m",
            cost=_COST,
        ),
        PhaseEntered(phase="p", carried=draw(st.none() | st.just(text))),
        ChoiceRecorded(phase="p", choice="c", label=draw(st.none() | st.sampled_from(LABELS))),
        BlueprintMoved(
            before=ref,
            blueprint=ref,
            attributes={},
            reach=0,
            cartridge=draw(st.none() | _DIGESTS),
        ),
    ]
    if not is_child:
        asked = ChildRequested(
            turn=turn,
            call=call,
            id=request,
            profile="p",
            session=CHILD,
            child_turn=draw(st.integers(1, 2)),
        )
        events.append(asked)
    return draw(st.sampled_from(events))


def _build_opening(origin: SessionOrigin | None = None) -> SessionOpened:
    ref = BlueprintRef(name="b", version=1, digest=DIGESTS[0])
    return SessionOpened(
        blueprint=ref,
        profile="p",
        attributes={"a": "a"},
        reach=0,
        cartridge=DIGESTS[1],
        origin=origin,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnSessions:
    """A parent, its child and a fork of the parent, and a session without relatives."""

    parent: tuple[KnownEvent, ...]
    child: tuple[KnownEvent, ...]
    fork: tuple[KnownEvent, ...]
    """What the fork has after the copied events."""
    forked_at: int
    single: tuple[KnownEvent, ...] = ()


@st.composite
def draw_sessions(draw: DrawFn) -> DrawnSessions:
    """Draw four sessions."""

    def draw_events(
        after: int, known: Sequence[KnownEvent] = (), *, is_child: bool = False
    ) -> tuple[KnownEvent, ...]:
        events = list(known)
        for sequence in range(after + 1, after + draw(st.integers(3, 12))):
            calls = [each.call for each in events if isinstance(each, ContextAssembled)]
            drawn = _draw_event(sequence, calls, _build_opening(), is_child=is_child)
            events.append(draw(drawn))
        return tuple(events[len(known) :])

    parent = draw_events(1)
    forked_at = draw(st.integers(1, 1 + len(parent)))
    copied = parent[: forked_at - 1]
    child = draw_events(1, is_child=True)
    return DrawnSessions(
        parent=parent,
        child=child,
        fork=draw_events(forked_at, copied),
        forked_at=forked_at,
        single=draw_events(1, is_child=True),
    )


def build_passed_texts() -> DrawnSessions:
    """Build what is seldom drawn: texts that reach a child, its parent, and the next phase."""
    text, part = PlainText(text="a"), partial(_build_part, is_included=True)
    turn = HistorySource(view="v", first=1, last=1)
    parent = (
        build_assembled(1, "1.2", part(_build_segment(1, 1))),
        ChildRequested(turn=1, call="1.2", id="r1", profile="p", session=CHILD, child_turn=1),
        ToolReturned(turn=1, call="1.2", id="r1", tool="t", outcome="answered", text=text),
        build_assembled(2, "2.5", part(EventTextSource(sequence=4, field="text"))),
        build_submitted(3, "a"),
        PhaseEntered(phase="p", carried=text),
        build_assembled(4, "4.8", part(EventTextSource(sequence=7, field="text"))),
    )
    child = (build_submitted(1, "a"), build_assembled(2, "2.3", part(turn)))
    single = (build_assembled(1, "1.2", part(_build_segment(1, 1))),)
    fork = (build_submitted(1, "a"),)
    return DrawnSessions(parent=parent, child=child, fork=fork, forked_at=1, single=single)


async def store_sessions(drawn: DrawnSessions) -> tuple[MemoryLog, list[RecordedEvent]]:
    """Append the sessions to a log, and return it with all events."""
    log = MemoryLog()
    parent = StoredSession(log=log, session=PARENT)
    child, fork = StoredSession(log=log, session=CHILD), StoredSession(log=log, session=FORK)
    events = [*await parent.append_events(_build_opening())]
    for each in drawn.parent:
        events += await parent.append_events(each)
    asked = SessionOrigin(kind="parent", session=PARENT, sequence=1)
    events += await child.append_events(_build_opening(asked), *drawn.child)
    forked = SessionOrigin(kind="fork", session=PARENT, sequence=drawn.forked_at)
    events += await fork.append_events(_build_opening(forked))
    originals = events[1 : drawn.forked_at]
    if originals:
        assert fork.last_event
        batch = copy_events(FORK, fork.last_event.head, originals, "/test")
        outcome = await log.append_batch(batch)
        assert isinstance(outcome, BatchAppended)
        fork.last_event = outcome.events[-1]
        events += outcome.events
    events += await fork.append_events(*drawn.fork)
    single = StoredSession(log=log, session=SINGLE)
    events += await single.append_events(_build_opening(), *drawn.single)
    return log, events


async def store_crowd(log: EventLog, names: Sequence[str], origin: str | None = None) -> None:
    """Append sessions whose only prompt has segment 1, forked from `origin` if it is given."""
    for name in names:
        forked = SessionOrigin(kind="fork", session=origin, sequence=1) if origin else None
        call = build_assembled(1, "1.2", _build_part(_build_segment(1, 1), is_included=True))
        await StoredSession(log=log, session=name).append_events(_build_opening(forked), call)


SOUGHT_SOURCES: list[StoredSource] = [
    StoredSource("segment", "1"),
    StoredSource("segment", "2", 2),
    StoredSource("document", "books/e1"),
    StoredSource("document", "books/e2", 1),
    *(StoredSource("digest", digest) for digest in DIGESTS),
    *(StoredSource("label", label) for label in LABELS),
]

_TurnEvent = (
    TurnSubmitted | TurnQueued | TurnCompleted | ReplyRedacted | TextRedacted | CallCompleted
    | ToolCalled | ToolReturned | StepPlanned | TurnResolved
)  # fmt: skip

_SHOWN = (TurnSubmitted, TurnQueued, TurnCompleted, ReplyRedacted, TextRedacted)

Place = tuple[str, int]
"""An event: the session and the sequence."""


@dataclass(slots=True)
class NaiveSearch:
    """Finds every call that had a source by going over all events until nothing new is found."""

    events: Sequence[RecordedEvent]
    source: StoredSource | None
    text: tuple[str, TextNode] | None
    replies: bool
    found: set[Place] = field(default_factory=set[Place])
    """The events whose text has the source; of a call, the event with its prompt."""

    def find_calls(self) -> set[tuple[str, str]]:
        """Return the calls, by session and call."""
        before = -1
        while before != len(self.found):
            before = len(self.found)
            self.found |= {
                (each.session, each.sequence) for each in self.events if self._has_source(each)
            }
        return {
            (each.session, each.event.call)
            for each in self.events
            if isinstance(each.event, ContextAssembled)
            and (each.session, each.sequence) in self.found
        }

    def _has_source(self, recorded: RecordedEvent) -> bool:
        event = recorded.event
        if isinstance(event, ContextAssembled):
            return any(
                self._is_in_part(part.source, recorded, event.turn)
                for part in event.manifest.parts
                if part.is_included and part.source
            )
        return (
            self._is_sought(recorded)
            or self._is_copy(recorded)
            or self._is_derived(recorded)
            or (isinstance(event, _TurnEvent) and self._is_of_found_turn(recorded, event.turn))
        )

    def _is_sought(self, recorded: RecordedEvent) -> bool:
        event = recorded.event
        if isinstance(event, ChoiceRecorded) and event.label and self.source:
            return self.source == StoredSource("label", event.label)
        if self.text is None or recorded.session != self.text[0]:
            return False
        match self.text[1]:
            case TurnNode(turn):
                return isinstance(event, _TurnEvent) and event.turn == turn
            case EventNode(sequence):
                return recorded.sequence == sequence
            case _:
                return False

    def _is_copy(self, recorded: RecordedEvent) -> bool:
        pairs = {PARENT: FORK, FORK: PARENT}
        other = pairs.get(recorded.session)
        forked_at = next(
            each.event.origin.sequence
            for each in self.events
            if each.session == FORK and isinstance(each.event, SessionOpened) and each.event.origin
        )
        is_shared = recorded.sequence <= forked_at
        return other is not None and is_shared and (other, recorded.sequence) in self.found

    def _is_derived(self, recorded: RecordedEvent) -> bool:
        match recorded.event:
            case HistorySummarised(call=call, turns=ranges):
                turns = {turn for each in ranges for turn in range(each.first, each.last + 1)}
                return self._is_call_found(recorded.session, call) or any(
                    each.sequence < recorded.sequence and _get_turn(each) in turns
                    for each in self._list_found_turn_events(recorded.session)
                )
            case PhaseEntered(carried=PlainText()):
                entered = max(
                    (
                        each.sequence
                        for each in self._list_before(recorded)
                        if isinstance(each.event, PhaseEntered)
                    ),
                    default=0,
                )
                return any(
                    entered < each.sequence < recorded.sequence
                    for each in self._list_found_turn_events(recorded.session)
                )
            case StepPlanned(loop=int(loop)):
                return self._is_text_found(recorded.session, loop)
            case ToolReturned(call=call, id=request):
                return self._has_child_replied(recorded.session, call, request)
            case _:
                return False

    def _has_child_replied(self, session: str, call: str, request: str) -> bool:
        asked = {
            each.child_turn
            for each in self._list_children(session)
            if (each.call, each.id) == (call, request)
        }
        return any(_get_turn(each) in asked for each in self._list_found_turn_events(CHILD))

    def _is_of_found_turn(self, recorded: RecordedEvent, turn: int) -> bool:
        """Return whether a parent asked for the turn with it, or its earlier call is followed."""
        if recorded.session == CHILD and any(
            each.child_turn == turn and self._is_spoken_call(PARENT, each.call)
            for each in self._list_children(PARENT)
        ):
            return True
        return self.replies and any(
            isinstance(each.event, ContextAssembled) and each.event.turn == turn
            for each in self._list_found_turn_events(recorded.session)
            if each.sequence < recorded.sequence
        )

    def _list_children(self, session: str) -> list[ChildRequested]:
        # Of one request for a child's turn, the latest counts; what a fork copied has none.
        latest: dict[int, ChildRequested] = {}
        for each in self.events:
            event = each.event
            is_own = each.session == session and each.envelope.copyof is None
            if is_own and isinstance(event, ChildRequested):
                latest[event.child_turn] = event
        return list(latest.values())

    def _list_found_turn_events(self, session: str) -> list[RecordedEvent]:
        """Return what of turns has the source: their texts, and calls that are no summary's."""
        return [
            each
            for each in self.events
            if each.session == session
            and (each.session, each.sequence) in self.found
            and (
                isinstance(each.event, _TurnEvent)
                or (
                    isinstance(each.event, ContextAssembled)
                    and self._is_spoken_call(session, each.event.call)
                )
            )
        ]

    def _is_text_found(self, session: str, sequence: int) -> bool:
        """Return whether an event with a text has the source; a prompt is no text."""
        return (session, sequence) in self.found and not any(
            isinstance(each.event, ContextAssembled)
            for each in self.events
            if (each.session, each.sequence) == (session, sequence)
        )

    def _is_call_found(self, session: str, call: str) -> bool:
        return any(
            each.session == session
            and isinstance(each.event, ContextAssembled)
            and each.event.call == call
            and (session, each.sequence) in self.found
            for each in self.events
        )

    def _is_spoken_call(self, session: str, call: str) -> bool:
        """Return whether a call has the source and its answer is no summary."""
        summarised = {
            each.event.call
            for each in self.events
            if each.session == session and isinstance(each.event, HistorySummarised)
        }
        return call not in summarised and self._is_call_found(session, call)

    def _list_before(self, recorded: RecordedEvent) -> Iterable[RecordedEvent]:
        return (
            each
            for each in self.events
            if each.session == recorded.session and each.sequence < recorded.sequence
        )

    def _is_in_part(self, source: PartSource, recorded: RecordedEvent, turn: int) -> bool:
        match source:
            case BlobSource(digest=digest):
                return self.source == StoredSource("digest", digest)
            case SegmentSource(segment=number, version=version, digest=digest):
                return self._is_stored("segment", str(number), version) or (
                    self.source == StoredSource("digest", digest)
                )
            case KnowledgeSource(collection=name, entry=entry, revision=version, digest=digest):
                return self._is_stored("document", f"{name}/{entry}", version) or (
                    self.source == StoredSource("digest", digest)
                )
            case EventTextSource(sequence=sequence):
                return self._is_text_found(recorded.session, sequence)
            case ParentInputSource(handed=sequence, digest=digest):
                is_found = self._is_text_found(recorded.session, sequence)
                return is_found or self.source == StoredSource("digest", digest)
            case ResolutionSource(resolution=sequence, lines=lines):
                labels = {StoredSource("label", label) for label in lines}
                is_found = self._is_text_found(recorded.session, sequence)
                return is_found or self.source in labels
            case HistorySource(first=first, last=last, work=work):
                return any(
                    (recorded.session, each.sequence) in self.found
                    and isinstance(each.event, _TurnEvent if work else _SHOWN)
                    and first <= _get_turn(each) <= last
                    for each in self._list_before(recorded)
                )
            case BlueprintTextSource(of=paths):
                return any(self._is_filled(path, recorded, turn) for path in paths or ("",))

    def _is_stored(self, kind: str, name: str, version: int) -> bool:
        sought = self.source
        return sought is not None and (
            (sought.kind, sought.name) == (kind, name) and sought.version in {None, version}
        )

    def _is_filled(self, path: str, recorded: RecordedEvent, turn: int) -> bool:
        before = list(self._list_before(recorded))
        pins = [each for each in before if isinstance(each.event, SessionOpened | BlueprintMoved)]
        pinned = pins[-1].event
        assert isinstance(pinned, SessionOpened | BlueprintMoved)
        used = {pinned.blueprint.digest}
        if path.startswith("cartridge.") and pinned.cartridge:
            used.add(pinned.cartridge)
        if self.source in {StoredSource("digest", digest) for digest in used}:
            return True
        has = [each for each in before if (each.session, each.sequence) in self.found]
        match path.split(".", maxsplit=1)[0]:
            case "inputs":
                return any(
                    isinstance(each.event, _SHOWN) and each.event.turn == turn for each in has
                )
            case "attributes":
                return pins[-1] in has
            case "session":
                return any(
                    isinstance(each.event, ChoiceRecorded) and each.event.label for each in has
                )
            case _:
                return False


def _get_turn(recorded: RecordedEvent) -> int:
    event = recorded.event
    assert isinstance(event, _TurnEvent | ContextAssembled)
    return event.turn
