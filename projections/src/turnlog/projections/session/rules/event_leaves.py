"""Which keys an event of a sealed session is sealed under: those of the turns that it follows from.

What a person said in a turn is under one leaf and what came of it under another. What is computed
from several turns is under the leaves of all of them: without one of these keys it cannot be read
any more, so whoever removes the words of a turn need not look for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from turnlog.events.content import is_keyed
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.knowledge_events import KNOWLEDGE_FAMILY
from turnlog.events.model.manifest import (
    BlobSource,
    EventTextSource,
    HistorySource,
    KnowledgeSource,
    Manifest,
    ParentInputSource,
    ResolutionSource,
    SegmentSource,
)
from turnlog.events.model.memory_events import HistorySummarised
from turnlog.events.model.override_events import OVERRIDE_FAMILY
from turnlog.events.model.redaction_events import (
    ContentErased,
    ErasureBegun,
    ReplyRedacted,
    TextRedacted,
    is_of_ended_turn,
)
from turnlog.events.model.retrieval_events import KnowledgeRetrieved, RetrievalCandidate
from turnlog.events.model.segment_events import SEGMENT_FAMILY
from turnlog.events.model.session_events import SessionOpened, SessionOrigin
from turnlog.events.model.turn_events import TurnDisplayed, TurnQueued, TurnResolved, TurnSubmitted
from turnlog.events.registry import AppendableEvent
from turnlog.events.seals.key_tree import SESSION_LEAF, get_text_leaf, get_work_leaf
from turnlog.events.seals.leaf_sets import LeafSets, get_library_leaves, join_leaves
from turnlog.projections.session.open_turn import RetrievedEntry, TurnSubmission
from turnlog.projections.session.state import SessionState, SettledTurnRef
from turnlog.projections.session.text_refs import InputsRef, TextRef

_SESSION: Final = frozenset({SESSION_LEAF})

ATTRIBUTE_FIELDS: Final = "attributes."
"""How the fields of the attributes of a session begin, in the sources of a manifest."""


def list_event_leaves(session: str, state: SessionState | None, event: AppendableEvent) -> LeafSets:
    """Return the leaves of an event that is appended after a state; none if it is not sealed.

    What is erased has no key any more, and what the state has instead of it is nobody's words.
    """
    if isinstance(event, ErasureBegun | ContentErased):
        return {}
    leaves = _list_leaves(session, state, event)
    if state is None or not state.erased_leaves:
        return leaves
    left = {
        each: numbers - state.erased_leaves.get(each, frozenset())
        for each, numbers in leaves.items()
    }
    return {each: numbers for each, numbers in left.items() if numbers} or {session: _SESSION}


def _list_leaves(session: str, state: SessionState | None, event: AppendableEvent) -> LeafSets:
    turn = getattr(event, "turn", None)
    match event:
        case SessionOpened(origin=SessionOrigin() as origin):
            return {session: _SESSION, origin.session: _SESSION}
        case TurnSubmitted() | TurnQueued():
            own = {session: frozenset({get_text_leaf(event.turn)})}
            return join_leaves(own, _list_parent_leaves(state, event.meta.get("turn")))
        case TextRedacted(spans=()):
            return {session: _SESSION}  # Nothing is left of the words.
        case ReplyRedacted() if is_of_ended_turn(event):
            return {session: _SESSION}
        case TextRedacted():
            # What is left of a text that a fork has from its origin is the origin's too.
            owners = {session, *_list_history_leaves(session, state, event.turn)}
            return dict.fromkeys(owners, frozenset({get_text_leaf(event.turn)}))
        case TurnDisplayed():
            return {session: frozenset(_list_displayed(event))}
        case KnowledgeRetrieved():
            own = {session: _list_turn_leaves(event.turn)}
            return join_leaves(own, *map(_list_entry_leaves, event.taken))
        case TurnResolved():
            return {session: _list_turn_leaves(event.turn)}
        case HistorySummarised():
            runs = (_list_run_leaves(session, state, run.first, run.last) for run in event.turns)
            return join_leaves(*runs)
        case ContextAssembled():
            own = {session: frozenset({get_work_leaf(event.turn)})}
            return join_leaves(own, _list_manifest_leaves(session, state, event.manifest))
        case _ if isinstance(turn, int):
            return {session: frozenset({get_work_leaf(turn)})}
        case _:
            return {session: _SESSION}


def list_work_leaves(state: SessionState, turn: int) -> LeafSets | None:
    """Return the leaves of a text that came of a turn; None if its session is not sealed."""
    if state.sealed_under is None:
        return None
    return {state.session: frozenset({get_work_leaf(turn)})}


def list_text_leaves(state: SessionState, turn: int) -> LeafSets | None:
    """Return the leaves of what a person said in a turn; None if its session is not sealed."""
    if state.sealed_under is None:
        return None
    return {state.session: frozenset({get_text_leaf(turn)})}


def _list_turn_leaves(turn: int) -> frozenset[int]:
    return frozenset({get_text_leaf(turn), get_work_leaf(turn)})


def _list_entry_leaves(entry: RetrievalCandidate | RetrievedEntry) -> LeafSets:
    """Return the leaf of an entry of knowledge; none where it is not sealed."""
    if not is_keyed(entry.digest):
        return {}
    return get_library_leaves(KNOWLEDGE_FAMILY, entry.revision)


def _list_retrieved(state: SessionState | None, sequence: int) -> Iterator[LeafSets]:
    """Yield the leaves of all that a retrieval of the open turn took, whose titles it has."""
    opened = state.open if state else None
    for made in opened.retrievals if opened else ():
        if made.sequence == sequence:
            yield from map(_list_entry_leaves, made.entries)


def _list_displayed(event: TurnDisplayed) -> Iterator[int]:
    if event.text is not None:
        yield get_text_leaf(event.turn)
    if event.reply is not None or event.text is None:
        yield get_work_leaf(event.turn)


def _list_parent_leaves(state: SessionState | None, turn: object) -> LeafSets:
    """Return the leaves of the parent's turn that asks a child for one."""
    if state is None or state.origin is None or not state.is_child or not isinstance(turn, int):
        return {}
    return {state.origin.session: _list_turn_leaves(turn)}


def _list_history_leaves(session: str, state: SessionState | None, turn: int) -> LeafSets:
    """Return the leaves of an earlier turn, which a fork may have from its origin.

    Of a turn of the origin the fork may have withheld a text or a reply: then they are of both.
    """
    leaves = _list_turn_leaves(turn)
    origin = state.origin if state else None
    if state is None or origin is None or origin.kind != "fork":
        return {session: leaves}
    settled = next((each for each in state.turns if each.turn == turn), None)
    refs = (settled.submission, settled.text, settled.reply) if settled else ()
    sequences = [each.sequence for each in refs if each]
    owners = {origin.session if each <= origin.sequence else session for each in sequences}
    return dict.fromkeys(owners or {session, origin.session}, leaves)


def _list_run_leaves(session: str, state: SessionState | None, first: int, last: int) -> LeafSets:
    """Return the leaves of a run of earlier turns."""
    if state and state.origin and state.origin.kind == "fork":
        turns = range(first, last + 1)
        return join_leaves(*(_list_history_leaves(session, state, turn) for turn in turns))
    return {session: frozenset(range(get_text_leaf(first), get_work_leaf(last) + 1))}


def _list_manifest_leaves(session: str, state: SessionState | None, manifest: Manifest) -> LeafSets:
    events = _EventLeaves(session, state)
    found: list[LeafSets] = []
    for source in (part.source for part in manifest.parts):
        match source:
            case HistorySource(first=first, last=last, later=later):
                found.append(_list_run_leaves(session, state, first, last))
                if later:
                    found.append(_list_history_leaves(session, state, later))
            case EventTextSource(field=field) if field.startswith(ATTRIBUTE_FIELDS):
                found.append({session: _SESSION})
            case EventTextSource(sequence=sequence):
                found.append(events.find_leaves(sequence))
            case ResolutionSource(resolution=sequence):
                found.append(events.find_leaves(sequence))
            case KnowledgeSource(retrieved=sequence):
                found += [events.find_leaves(sequence), *_list_retrieved(state, sequence)]
            case SegmentSource(sealed_in=int(sequence)):
                found.append(get_library_leaves(SEGMENT_FAMILY, sequence))
            case BlobSource(sealed_in=int(sequence)):
                found.append(get_library_leaves(OVERRIDE_FAMILY, sequence))
            case ParentInputSource(handed=sequence, session=parent, turn=turn):
                found += [events.find_leaves(sequence), {parent: _list_turn_leaves(turn)}]
            case _:
                continue
    return join_leaves(*found)


@dataclass(slots=True)
class _EventLeaves:
    """The leaves of the events that a prompt may refer to."""

    session: str
    state: SessionState | None
    known: dict[int, LeafSets] | None = None

    def find_leaves(self, sequence: int) -> LeafSets:
        """Return the leaves of an event; those of the session if no turn is known to have it."""
        opened = self.state.open if self.state else None
        if opened and sequence in _list_submitted_sequences(opened.submission):
            return {self.session: frozenset({get_text_leaf(opened.turn)})}
        if self.known is None:
            self.known = dict(self._iterate_known()) if self.state else {}
        return self.known.get(sequence, self._list_unknown(sequence))

    def _list_unknown(self, sequence: int) -> LeafSets:
        """Return the leaves of an event of the open turn, or of none."""
        opened = self.state.open if self.state else None
        text = opened.submission.text if opened else None
        if opened and text and sequence > text.sequence:
            return {self.session: frozenset({get_work_leaf(opened.turn)})}
        return {self.session: _SESSION}

    def _iterate_known(self) -> Iterator[tuple[int, LeafSets]]:
        state = self.state
        if state is None:
            return
        for settled in state.turns:
            yield from self._iterate_settled(settled)
        for unsettled in state.unsettled_turns:
            yield from self._iterate_submitted(unsettled)
        for summary in state.summaries:
            runs = (
                _list_run_leaves(self.session, state, run.first, run.last) for run in summary.turns
            )
            yield summary.sequence, join_leaves(*runs)
        if state.returns:
            owner = _list_history_leaves(self.session, state, state.returns.turn)
            yield from ((ref.said.sequence, owner) for ref in state.returns.results)

    def _iterate_settled(self, settled: SettledTurnRef) -> Iterator[tuple[int, LeafSets]]:
        leaves = _list_history_leaves(self.session, self.state, settled.turn)
        reasoned = [settled.reasoning.said] if settled.reasoning else []
        refs = (settled.reply, settled.work, settled.outcomes, *settled.results, *reasoned)
        yield from _select_leaf(refs, leaves, get_work_leaf(settled.turn))
        submitted = (settled.text, settled.submission)
        yield from _select_leaf(submitted, leaves, get_text_leaf(settled.turn))

    def _iterate_submitted(self, submitted: TurnSubmission) -> Iterator[tuple[int, LeafSets]]:
        leaves: LeafSets = {self.session: frozenset({get_text_leaf(submitted.turn)})}
        yield from ((each, leaves) for each in _list_submitted_sequences(submitted))


def _list_submitted_sequences(submitted: TurnSubmission) -> list[int]:
    """Return the sequences of the events with what a person said in a turn."""
    refs = (submitted.text, submitted.inputs, *submitted.media)
    return [ref.sequence for ref in refs if ref is not None]


def _select_leaf(
    refs: Iterable[TextRef | InputsRef | None], leaves: LeafSets, leaf: int
) -> Iterator[tuple[int, LeafSets]]:
    """Yield the one leaf of a turn for the events of texts that are there."""
    for ref in refs:
        if ref is not None:
            yield ref.sequence, {session: frozenset({leaf}) for session in leaves}
