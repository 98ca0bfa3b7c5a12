"""Random sessions and random erasures: what was reached is gone, and all else reproduces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.faults.suite_extent import choose_examples
from tests.layered_prompts.session_actions import ACTIONS, Action
from tests.layered_prompts.test_session_invariants import play_session
from tests.support.sessions.reproduction_checks import verify_session_log
from turnlog.events.codec import CommandRef, EventDraft, decode_event, encode_batch
from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.redaction_events import (
    ContentErased,
    ErasedPart,
    ErasedTurn,
    ErasureBegun,
)
from turnlog.events.model.session_events import SessionOpened
from turnlog.events.registry import KnownEvent
from turnlog.events.seals.event_boxes import EventSeal
from turnlog.events.seals.kept_keys import KeptKey, compute_kept_digest, list_kept_keys
from turnlog.events.seals.key_tree import KeyTree, LeafErased, derive_box_key
from turnlog.events.seals.leaf_sets import format_leaves, parse_leaf_runs
from turnlog.events.seals.person_names import PseudonymKey
from turnlog.events.seals.sealed_payload import SealedPayload, get_box_key, parse_sealed_header
from turnlog.events.testing import make_draft
from turnlog.projections.audit.record.erasure_reach import find_reach, is_closed
from turnlog.projections.audit.verify.audit_findings import AuditFinding
from turnlog.projections.audit.verify.session_verification import (
    VerificationContext,
    verify_session,
)
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.rules.erasure_rules import begin_erasure, list_leaves
from turnlog.projections.session.rules.event_leaves import list_event_leaves
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_commands import BeginErasure
from turnlog.services.bundle.check_lines import VerificationFailure
from turnlog.services.bundle.forgetting_verifier import (
    LeftKeys,
    ReceiptPart,
    check_calls,
    check_kept,
    check_opened,
    check_words,
)
from turnlog.services.bundle.verifier import EventChain
from turnlog.services.erasures.erasure_tracing import find_last_turn
from turnlog.services.extensions.plugins import collect_installed

pytestmark = pytest.mark.slow("whole sessions run on a service of their own")

erasures = settings(
    max_examples=choose_examples(10), phases=[Phase.explicit, Phase.reuse, Phase.generate]
)


@dataclass
class SealedCopy:
    """A session that is sealed once more, and from which keys can be removed."""

    tree: KeyTree = field(default_factory=lambda: KeyTree.create(bytes(range(32))))
    events: list[RecordedEvent] = field(default_factory=list[RecordedEvent])

    @property
    def state(self) -> SessionState | None:
        return fold(self.events) if self.events else None

    def append_draft(self, session: str, draft: EventDraft) -> None:
        state = self.state
        leaves = list_event_leaves(session, state, draft.event)
        name = format_leaves(leaves)
        key = self.derive_key(name) or b""
        seal = EventSeal(key=key, leaves=name, pseudonyms=PseudonymKey(bytes(32)))
        batch = encode_batch(
            tenant="t",
            session=session,
            after=state.head if state else None,
            drafts=[draft],
            seal=lambda event, opened: seal.seal_event(type(event), opened) if name else opened,
        )
        self.events.append(decode_event(batch.messages[0].payload, len(self.events) + 1))

    def append_events(self, events: Iterable[KnownEvent]) -> None:
        for event in events:
            self.append_draft(self.events[0].session, make_draft(event))

    def derive_key(self, name: str) -> bytes | None:
        runs = parse_leaf_runs(name) or {}
        try:
            keys = [
                key for each in sorted(runs) for key in self.tree.derive_covering_keys(runs[each])
            ]
        except LeafErased:
            return None
        return derive_box_key(keys)

    def remove_leaves(self, leaves: Iterable[int]) -> None:
        """Remove keys, and read everything anew by those that are left."""
        self.tree = self.tree.remove_leaves(leaves)
        self.events = [self.read_anew(each) for each in self.events]

    def list_kept_keys(self) -> list[KeptKey]:
        """Return what is left of the keys, as the service lists it."""
        begun = max(each.sequence for each in self.events if isinstance(each.event, ErasureBegun))
        return list_kept_keys(self.tree, find_last_turn(self.events, begun))

    def build_part(self) -> tuple[ReceiptPart, LeftKeys]:
        """Return what a stranger gets of the session, and the keys beside it."""
        begun, ended = self.events[-2:]
        assert isinstance(begun.event, ErasureBegun)
        assert isinstance(ended.event, ContentErased)
        reach, kept = find_reach(self.events, begun.event.leaves), self.list_kept_keys()
        gone = {each.turn for each in begun.event.turns if each.of != "text"}
        keys = {str(e.sequence): key.hex() for e in self.events if (key := get_box_key(e.stored))}
        chain = EventChain()
        lines = [bytes(each.stored) for each in self.events]
        chain.read_lines(lines, begun.tenant, begun.session, keys)
        stated = {
            "session": begun.session,
            "begun": begun.sequence,
            "ended": ended.sequence,
            "turns": [each.model_dump() for each in begun.event.turns],
            "leaves": begun.event.leaves,
            "events": [
                {"sequence": e.sequence, "id": e.envelope.id, "type": e.envelope.type}
                for e in self.events
                if e.sequence in reach.events
            ],
            "calls": list(reach.calls),
            "repeating_turns": [turn for turn in reach.turns if turn not in gone],
            "head": {"sequence": ended.sequence, "hash": ended.head.hash},
            "keys_left": ended.event.keys_left,
            "keys": [each.describe() for each in kept],
        }
        nodes = [(each.leaves.start, each.leaves.stop - 1, each.node) for each in kept]
        part = ReceiptPart(stated=stated, chain=chain, box_keys=keys)
        return part, LeftKeys({begun.session: nodes})

    def read_anew(self, recorded: RecordedEvent) -> RecordedEvent:
        stored = bytes(recorded.stored)
        header = parse_sealed_header(stored)
        if header is None:
            return decode_event(stored, recorded.stream_sequence)
        payload = SealedPayload(stored, self.derive_key(header.leaves))
        return decode_event(payload, recorded.stream_sequence)


def seal_session(events: Sequence[RecordedEvent]) -> SealedCopy:
    copy = SealedCopy()
    for recorded in events:
        event, envelope = recorded.event, recorded.envelope
        if isinstance(event, SessionOpened):
            event = event.model_copy(update={"sealed_under": 1})
        key, digest = envelope.commandkey, envelope.commandhash
        draft = EventDraft(
            event=event,  # type: ignore[arg-type]
            id=envelope.id,
            at=datetime.fromisoformat(envelope.time),
            source=envelope.source,
            actor=envelope.actor,
            causation=envelope.causationid,
            command=CommandRef(key, digest) if key and digest else None,
        )
        copy.append_draft(recorded.session, draft)
    return copy


def erase(copy: SealedCopy, turns: tuple[ErasedTurn, ...]) -> str:
    """Erase as the service does; return the name of the keys that are gone."""
    state = copy.state
    assert state is not None
    command = BeginErasure(turns=turns, reason="asked", replacement="[erased]", leaves="")
    copy.append_events(begin_erasure(state, command))
    begun = copy.events[-1].sequence
    copy.remove_leaves(list_leaves(turns))
    ended = ContentErased(
        begun=begun,
        generation=1,
        record_before="a",
        record_after="b",
        keys_left=compute_kept_digest(copy.list_kept_keys()),
    )
    copy.append_events([ended])
    return format_leaves({state.session: list_leaves(turns)})


@erasures
@given(ACTIONS, st.data())
def test_what_is_not_reached_reproduces_and_what_is_reached_does_not(
    actions: list[Action], data: st.DataObject
) -> None:
    session = play_session(actions)
    copy = seal_session(session.events)
    state = copy.state
    assert state is not None
    settled = [ref.turn for ref in state.turns]
    if state.open or state.waiting or not settled:
        return
    parts: st.SearchStrategy[ErasedPart] = st.sampled_from(["text", "work", "turn"])
    drawn = data.draw(st.dictionaries(st.sampled_from(settled), parts, min_size=1, max_size=3))
    turns = tuple(ErasedTurn(turn=turn, of=of) for turn, of in sorted(drawn.items()))
    before = len(copy.events)
    leaves = erase(copy, turns)

    reach = find_reach(copy.events, leaves)
    assert [each.sequence for each in copy.events if is_closed(each)] == [*reach.events]
    assert all(sequence <= before for sequence in reach.events)
    report = verify_session(copy.events, session.blobs, VerificationContext(collect_installed()))
    assert report.findings == ()
    assert report.prompts.erased == len(reach.calls)
    assert report.prompts.reference == report.prompts.calls - len(reach.calls)
    assert report.prompts.assembly == report.prompts.calls - len(reach.calls)
    blobs = {digest: text.encode() for digest, text in session.blobs.items()}
    assert [*verify_session_log(copy.events, blobs)] == []
    calls = [each for each in copy.events if isinstance(each.event, ContextAssembled)]
    assert len(calls) == report.prompts.calls


def check_as_stranger(part: ReceiptPart) -> None:
    for check in (check_words, check_calls, check_kept):
        check(part)


LIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "an event is left out": lambda stated: stated["events"].pop(),
    "an event is named twice": lambda stated: stated["events"].append(stated["events"][0]),
    "a call is left out": lambda stated: stated["calls"].pop(),
    "a call is added": lambda stated: stated["calls"].append("99.1"),
    "a key is lost": lambda stated: stated["keys"].pop(),
    "a key is another one": lambda stated: stated["keys"][0].update(hash=compute_digest("x")),
}


@erasures
@given(ACTIONS, st.data())
def test_stranger_agrees_with_the_receipt_of_any_erasure_and_with_no_other(
    actions: list[Action], data: st.DataObject
) -> None:
    copy = seal_session(play_session(actions).events)
    state = copy.state
    assert state is not None
    settled = [ref.turn for ref in state.turns]
    if state.open or state.waiting or not settled:
        return
    parts: st.SearchStrategy[ErasedPart] = st.sampled_from(["text", "work", "turn"])
    drawn = data.draw(st.dictionaries(st.sampled_from(settled), parts, min_size=1, max_size=3))
    erase(copy, tuple(ErasedTurn(turn=turn, of=of) for turn, of in sorted(drawn.items())))
    part, left = copy.build_part()
    check_as_stranger(part)
    check_opened(part, left)
    lie = data.draw(st.sampled_from(sorted(LIES)))
    if "call" in lie and not part.stated["calls"]:
        return
    LIES[lie](part.stated)
    with pytest.raises(VerificationFailure):
        check_as_stranger(part)


@erasures
@given(ACTIONS)
def test_keys_that_are_gone_without_an_erasure_and_words_left_by_one_are_found(
    actions: list[Action],
) -> None:
    session = play_session(actions)
    copy = seal_session(session.events)
    state = copy.state
    assert state is not None
    if state.open or state.waiting or not state.turns:
        return
    turns = (ErasedTurn(turn=state.turns[0].turn, of="turn"),)
    lost = replace(copy, events=[*copy.events])
    lost.remove_leaves(list_leaves(turns))
    assert {"the keys of its words are gone, and no erasure says so"} == {
        each.detail for each in find_erasure_faults(lost.events, session.blobs)
    }
    whole = copy.tree
    erase(copy, turns)
    copy.tree = whole
    copy.remove_leaves([])
    assert [each.detail for each in find_erasure_faults(copy.events, session.blobs)]


def find_erasure_faults(
    events: Sequence[RecordedEvent], blobs: dict[str, str]
) -> list[AuditFinding]:
    report = verify_session(events, blobs, VerificationContext(collect_installed()))
    return [each for each in report.findings if each.check == "erasure"]
