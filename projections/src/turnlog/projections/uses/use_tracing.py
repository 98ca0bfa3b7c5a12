"""Which calls of a session had a source in their prompt, and what of it reached other sessions.

A prompt has a source directly, where the manifest names it, or through a text that stands for what
had it: a summary, a text carried into the next phase, a plan's step that quotes a result, the turn
of a child, or the copy in a fork. Each of these is a hop, and a use is reported with the fewest.
A reply may repeat what its prompt had, but it stands for nothing else; replies are followed only
where that is asked for.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from turnlog.projections.uses.event_texts import EventText
from turnlog.projections.uses.prompt_sources import WORK, PromptSource
from turnlog.projections.uses.use_records import (
    ChildReplyNode,
    EventNode,
    IndexedCall,
    IndexedSession,
    ResultNode,
    StoredSource,
    TextNode,
    TurnNode,
    UseHop,
    UseHopKind,
    UseWay,
)


@dataclass(frozen=True, slots=True, order=True)
class _CallNode:
    call: str


_Node = TextNode | _CallNode


@dataclass(frozen=True, slots=True)
class TracedSession:
    """What tracing a session resulted in."""

    calls: Mapping[str, UseWay]
    """The calls that had the source, each with its shortest way."""
    passed_on: Mapping[tuple[str, TextNode], UseWay]
    """The texts of other sessions that have it from this one."""


def trace_session(
    record: IndexedSession,
    sources: Collection[StoredSource],
    texts: Mapping[TextNode, UseWay],
    *,
    replies: bool,
) -> TracedSession:
    """Return the calls of a session that had one of the sources, or one of the texts.

    `texts` are texts of this session that are the source, or have it by the way that is given.
    """
    walk = _UseWalk(record, replies=replies)
    for node, way in texts.items():
        walk.mark_node(node, way)
    for call in _list_direct_calls(record, sources):
        walk.mark_node(_CallNode(call), ())
    labels = {each.name for each in sources if each.kind == "label"}
    for text in record.texts:
        if text.kind == "choice" and text.label in labels:
            walk.mark_node(EventNode(text.sequence), ())
    walk.follow_nodes()
    calls = {node.call: way for node, way in walk.ways.items() if isinstance(node, _CallNode)}
    return TracedSession(calls, walk.passed_on)


def is_shorter_way(way: UseWay, other: UseWay | None) -> bool:
    """Return whether a way is to be reported instead of the other one."""
    return other is None or (len(way), way) < (len(other), other)


_ATTRIBUTES_PATH: Final = "attributes."

_INPUTS_PATH: Final = "inputs."

_CARTRIDGE_PATH: Final = "cartridge."

_CHOICES_PATH: Final = "session.choices"


def _list_direct_calls(record: IndexedSession, sources: Collection[StoredSource]) -> Iterator[str]:
    """Yield the calls whose prompt has one of the sources itself."""
    pinned = {each.name for each in sources if each.kind == "digest"}
    for call in record.calls:
        named = (each.is_named_by(source) for each in sources for source in call.sources)
        if any(named) or (pinned and _has_pinned_text(record, call, pinned)):
            yield call.call


def _has_pinned_text(record: IndexedSession, call: IndexedCall, digests: set[str]) -> bool:
    """Return whether a prompt has texts of a blueprint or a cartridge with such a digest."""
    literals = [each.name for each in call.sources if each.kind == "literal"]
    if not literals:
        return False
    kinds = {"blueprint"}
    if any(name.startswith(_CARTRIDGE_PATH) for name in literals):
        kinds.add("cartridge")
    openings = (each.sequence for each in record.texts if each.kind == "blueprint")
    pinned_in = max((at for at in openings if at < call.sequence), default=0)
    found = (each for each in record.texts if each.sequence == pinned_in and each.kind in kinds)
    return any(each.label in digests for each in found)


class _UseWalk:
    """Follows a source through the texts of a session, nearest first."""

    def __init__(self, record: IndexedSession, *, replies: bool) -> None:
        self.record, self.replies = record, replies
        self.ways: dict[_Node, UseWay] = {}
        self.passed_on: dict[tuple[str, TextNode], UseWay] = {}
        self._queue: list[tuple[int, UseWay, str, _Node]] = []
        self._index = _SessionIndex(record)

    def mark_node(self, node: _Node, way: UseWay) -> None:
        """Note that a text or a call has the source by this way, unless a shorter one is known."""
        if is_shorter_way(way, self.ways.get(node)):
            self.ways[node] = way
            heapq.heappush(self._queue, (len(way), way, type(node).__name__, node))

    def follow_nodes(self) -> None:
        """Go on from everything that is reached, until nothing new is."""
        while self._queue:
            _, way, _, node = heapq.heappop(self._queue)
            if self.ways[node] != way:
                continue
            match node:
                case TurnNode(turn):
                    for text in self._index.texts_by_turn[turn]:
                        self.mark_node(EventNode(text.sequence), way)
                case EventNode(sequence):
                    self._follow_event(sequence, way)
                case ChildReplyNode():
                    for child in self.record.children:
                        if (child.session, child.turn) == (node.session, node.turn):
                            self.mark_node(ResultNode(child.call, child.request), way)
                case ResultNode(call, request):
                    for text in self._index.texts_by_kind["result"]:
                        if (text.call, text.request) == (call, request):
                            self.mark_node(EventNode(text.sequence), way)
                case _CallNode(call):
                    self._follow_call(self._index.calls[call], way)
                case _ as never:
                    assert_never(never)

    def _follow_event(self, sequence: int, way: UseWay) -> None:
        for call in self._index.calls_by_event[sequence]:
            self.mark_node(_CallNode(call), way)
        for text in self._index.texts_by_event[sequence]:
            self._follow_text(text, way)
        for text in self._index.quotes_by_event[sequence]:
            self._mark_event(text.sequence, "step", way)
        for session, last in self.record.copies:
            if sequence <= last:
                hop = UseHop(kind="fork", session=self.record.session)
                self._pass_on(session, EventNode(sequence), (*way, hop))

    def _follow_text(self, text: EventText, way: UseWay) -> None:
        match text.kind:
            case "turn" | "work" | "result":
                self._follow_turn_text(text, way)
            case "choice":
                self._mark_literals(_CHOICES_PATH, text.sequence, way)
            case "blueprint":
                moved = self._index.find_next("blueprint", text.sequence)
                until = moved.sequence if moved else None
                self._mark_literals(_ATTRIBUTES_PATH, text.sequence, way, until=until)
            case "summary" | "phase" | "carried" | "cartridge":
                pass
            case _ as never:
                assert_never(never)

    def _follow_turn_text(self, text: EventText, way: UseWay) -> None:
        for call, run in self._index.runs:
            is_shown = text.kind == "turn" or run.name == WORK
            is_before = text.sequence < call.sequence
            if is_shown and is_before and run.first <= text.first <= run.last:
                self.mark_node(_CallNode(call.call), way)
        if text.kind == "turn":
            self._mark_literals(_INPUTS_PATH, text.sequence, way, turn=text.first)
        self._mark_stand_ins(text.first, text.sequence, way)
        self._reply_to_parent(text.first, way)

    def _mark_literals(
        self,
        path: str,
        after: int,
        way: UseWay,
        *,
        until: int | None = None,
        turn: int | None = None,
    ) -> None:
        """Mark the calls whose prompt was filled with a value of this path after an event."""
        for call, source in self._index.literals:
            is_after = after < call.sequence and (until is None or call.sequence < until)
            if is_after and turn in {None, call.turn} and source.name.startswith(path):
                self.mark_node(_CallNode(call.call), way)

    def _mark_stand_ins(self, turn: int, after: int, way: UseWay) -> None:
        """Mark the summaries of a turn, and what was carried out of its phase after an event."""
        for text in self._index.texts_by_kind["summary"]:
            if text.sequence > after and text.first <= turn <= text.last:
                self._mark_event(text.sequence, "summary", way)
        left = self._index.find_next("phase", after)
        if left and left.kind == "carried":
            self._mark_event(left.sequence, "carried", way)

    def _mark_event(self, sequence: int, kind: UseHopKind, way: UseWay) -> None:
        hop = UseHop(kind=kind, session=self.record.session, sequence=sequence)
        self.mark_node(EventNode(sequence), (*way, hop))

    def _follow_call(self, call: IndexedCall, way: UseWay) -> None:
        summaries = self._index.summaries_by_call[call.call]
        for text in summaries:
            self._mark_event(text.sequence, "summary", way)
        if summaries:
            return  # Its answer is the summary, and no part of the turn that goes on after it.
        self._mark_stand_ins(call.turn, call.sequence, way)
        self._reply_to_parent(call.turn, way)
        for child in self.record.children:
            if child.call == call.call:
                hop = UseHop(kind="parent", session=self.record.session, turn=call.turn)
                self._pass_on(child.session, TurnNode(child.turn), (*way, hop))
        if self.replies:
            hop = UseHop(kind="reply", session=self.record.session, turn=call.turn)
            for text in self._index.texts_by_turn[call.turn]:
                if text.sequence > call.sequence:
                    self.mark_node(EventNode(text.sequence), (*way, hop))

    def _reply_to_parent(self, turn: int, way: UseWay) -> None:
        if self.record.parent is not None:
            mine = self.record.session
            hop = UseHop(kind="child", session=mine, turn=turn)
            self._pass_on(self.record.parent, ChildReplyNode(mine, turn), (*way, hop))

    def _pass_on(self, session: str, node: TextNode, way: UseWay) -> None:
        if is_shorter_way(way, self.passed_on.get((session, node))):
            self.passed_on[session, node] = way


class _SessionIndex:
    """A record by what the walk looks up."""

    def __init__(self, record: IndexedSession) -> None:
        self.calls = {each.call: each for each in record.calls}
        self.runs: list[tuple[IndexedCall, PromptSource]] = []
        self.literals: list[tuple[IndexedCall, PromptSource]] = []
        self.calls_by_event: defaultdict[int, list[str]] = defaultdict(list)
        for call in record.calls:
            for source in call.sources:
                match source.kind:
                    case "turn":
                        self.runs.append((call, source))
                    case "event":
                        self.calls_by_event[source.first].append(call.call)
                    case "literal":
                        self.literals.append((call, source))
                    case _:
                        pass
        self.texts_by_event: defaultdict[int, list[EventText]] = defaultdict(list)
        self.texts_by_kind: defaultdict[str, list[EventText]] = defaultdict(list)
        self.texts_by_turn: defaultdict[int, list[EventText]] = defaultdict(list)
        self.quotes_by_event: defaultdict[int, list[EventText]] = defaultdict(list)
        self.summaries_by_call: defaultdict[str, list[EventText]] = defaultdict(list)
        for text in sorted(record.texts, key=lambda each: each.sequence):
            self._add_text(text)

    def _add_text(self, text: EventText) -> None:
        self.texts_by_event[text.sequence].append(text)
        self.texts_by_kind["phase" if text.kind == "carried" else text.kind].append(text)
        if text.kind in {"turn", "work", "result"}:
            self.texts_by_turn[text.first].append(text)
        if text.quoted is not None:
            self.quotes_by_event[text.quoted].append(text)
        if text.kind == "summary" and text.call is not None:
            self.summaries_by_call[text.call].append(text)

    def find_next(self, kind: str, after: int) -> EventText | None:
        """Return the first text of a kind after an event; a carried text is one of a phase."""
        found = self.texts_by_kind[kind]
        place = bisect_right(found, after, key=lambda each: each.sequence)
        return found[place] if place < len(found) else None
