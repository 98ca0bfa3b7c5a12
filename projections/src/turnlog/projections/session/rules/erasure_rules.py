"""Rules for erasures: what is withheld before keys are removed, and when nothing may be erased.

Whoever decides an event after the beginning of an erasure sees in the state that the words are
withheld, since two writers never append behind the same event. So nothing that is written from then
on can have them, and everything before is sealed under the keys that go.
"""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.events.errors import Refused
from turnlog.events.model.redaction_events import (
    OPERATOR_RULE,
    ErasedTurn,
    ErasureBegun,
)
from turnlog.events.model.session_events import SessionClosed
from turnlog.events.registry import KnownEvent
from turnlog.events.seals.key_tree import LEAF_COUNT, get_text_leaf, get_work_leaf
from turnlog.events.seals.leaf_sets import format_leaf_runs, format_leaves
from turnlog.projections.session.fold.settled_turns import build_unknown_turn
from turnlog.projections.session.rules.admission_rules import require_settled_turn
from turnlog.projections.session.rules.attempt_events import NewEvents
from turnlog.projections.session.rules.redaction_rules import (
    build_reply_redaction,
    build_text_redaction,
)
from turnlog.projections.session.rules.steps.summary_rules import undo_summaries_of_turn
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_commands import (
    BeginErasure,
    EndErasure,
    RedactReply,
    RedactText,
)


def begin_erasure(state: SessionState, command: BeginErasure) -> NewEvents:
    """Withhold what is to be erased, and record that its keys go; refuse what cannot be erased."""
    if command.origin and command.origin.name in state.erased_by:
        return ()  # Two processes carry out the same erasure.
    require_erasable(state, command.turns)
    if not command.turns:
        return tuple(_erase_session(state, command))
    begun = _build_begun(command, format_leaves({state.session: list_leaves(command.turns)}))
    withheld = (event for each in command.turns for event in _withhold_turn(state, each, command))
    return (*withheld, begun)


def require_erasable(state: SessionState, turns: tuple[ErasedTurn, ...]) -> None:
    """Refuse a session or a turn of which nothing can be erased, or not now."""
    for each in turns:
        if each.turn > state.submitted:
            raise build_unknown_turn(each.turn)
    if state.sealed_under is None:
        detail = "the session is not sealed, so its words are in the log for good"
        fix = "redact them; sessions that are opened with TURNLOG_SEALING=on can be erased"
        raise Refused("not-sealed", detail, fix=fix)
    if state.erased:
        raise build_already_erased()
    if state.open or state.waiting:
        raise Refused(
            "turn-open", "a turn of the session is open or queued", fix="cancel it, or wait for it"
        )


def build_already_erased() -> Refused:
    """Return the refusal of a session of which no word is left."""
    return Refused("already-erased", "all words of the session are erased")


def end_erasure(state: SessionState, command: EndErasure) -> NewEvents:
    """Record that the keys are removed; nothing if that is recorded."""
    if command.erased.begun not in state.erasing:
        return ()
    others = (begun for begun in state.erasing if begun != command.erased.begun)
    return (command.erased.model_copy(update={"still_open": min(others, default=None)}),)


def list_leaves(turns: tuple[ErasedTurn, ...]) -> frozenset[int]:
    """Return the leaves of what is erased of these turns."""
    texts = (get_text_leaf(each.turn) for each in turns if each.of != "work")
    works = (get_work_leaf(each.turn) for each in turns if each.of != "text")
    return frozenset((*texts, *works))


def _erase_session(state: SessionState, command: BeginErasure) -> Iterator[KnownEvent]:
    if not state.closed:
        yield SessionClosed(reason="erased")
    yield _build_begun(command, format_leaf_runs(state.session, [range(LEAF_COUNT)]))


def _build_begun(command: BeginErasure, leaves: str) -> ErasureBegun:
    return ErasureBegun(
        leaves=";".join(filter(None, (leaves, command.leaves))),
        turns=command.turns,
        reason=command.reason,
        origin=command.origin,
        reached=command.reached,
        with_replies=command.with_replies,
    )


def _withhold_turn(
    state: SessionState, erased: ErasedTurn, command: BeginErasure
) -> Iterator[KnownEvent]:
    """Yield what replaces the parts of a turn, also where that was withheld before."""
    settled = require_settled_turn(state, erased.turn)
    withheld = (erased.turn, command.reason, OPERATOR_RULE, command.replacement)
    if erased.of != "work":
        turn, reason, rule, words = withheld
        yield build_text_redaction(
            RedactText(turn=turn, reason=reason, rule=rule, replacement=words)
        )
    if erased.of != "text" and settled.role == "user":
        yield build_reply_redaction(RedactReply(*withheld))
    yield from undo_summaries_of_turn(state, erased.turn, "redacted")
