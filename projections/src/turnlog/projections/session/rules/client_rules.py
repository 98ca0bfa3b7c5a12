"""Rules for callers: open, describe, submit, cancel and close; exclude, rate and display.

One turn is open at a time. The blueprint's `second_submit` policy decides what a second submit
does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, assert_never

from turnlog.events.content import PlainText, encode_canonical
from turnlog.events.errors import Refused
from turnlog.events.model.retrieval_events import EntryFeedbackGiven, FeedbackGiven
from turnlog.events.model.session_events import (
    SessionClosed,
    SessionDescribed,
    SessionOpened,
    ShareChanged,
)
from turnlog.events.model.turn_events import (
    TurnCancelled,
    TurnCompleted,
    TurnDisplayed,
    TurnExcluded,
    TurnQueued,
    TurnRestored,
    TurnSubmitted,
)
from turnlog.projections.blueprint.storable_json import JsonObject, check_text
from turnlog.projections.session.commands import (
    CancelTurn,
    CloseSession,
    DescribeSession,
    ExcludeTurn,
    OpenSession,
    RestoreTurn,
    SubmitTurn,
    TurnCommand,
)
from turnlog.projections.session.fold.settled_turns import build_unknown_turn, find_settled_turn
from turnlog.projections.session.rules.admission_rules import (
    require_open_session,
    require_settled_turn,
)
from turnlog.projections.session.rules.attempt_events import NewEvents, release_next_turn
from turnlog.projections.session.rules.erasure_rules import begin_erasure, end_erasure
from turnlog.projections.session.rules.phase_rules import enter_start_phase, require_turn_allowed
from turnlog.projections.session.rules.redaction_rules import (
    redact_reply,
    redact_text,
    redact_turn,
)
from turnlog.projections.session.rules.steps.child_rules import report_child_ends
from turnlog.projections.session.rules.steps.outcome_rules import cancel_open_turn
from turnlog.projections.session.rules.steps.summary_rules import undo_summaries_of_turn
from turnlog.projections.session.session_description import (
    check_description,
    check_metadata,
    merge_metadata,
)
from turnlog.projections.session.session_owner import ShareSession
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_commands import (
    BeginErasure,
    DisplayTurn,
    EndErasure,
    GiveEntryFeedback,
    GiveFeedback,
    RedactReply,
    RedactText,
    RedactTurn,
)


def open_session(state: SessionState | None, command: OpenSession) -> NewEvents:
    if state is not None:
        raise Refused(
            "session-exists",
            f"session {state.session} is open already",
            field="session",
            fix="leave the id out, or choose another",
        )
    graph, described = command.phases, check_description(command.description)
    opened = SessionOpened(
        blueprint=command.blueprint,
        profile=_choose_profile(command),
        attributes=command.attributes,
        reach=command.reach,
        cartridge=command.cartridge,
        origin=command.origin,
        key=command.key,
        memory=command.memory,
        warnings=command.warnings,
        title=PlainText(text=described.title) if described.title else None,
        labels=described.labels or (),
        metadata=described.metadata or {},
        owner=command.owner,
    )
    return (opened, *enter_start_phase(graph))


def _choose_profile(command: OpenSession) -> str:
    """Return the profile of a new session; as within a phase, the caller's choice comes first."""
    if command.requested_profile is not None:
        return command.requested_profile
    graph = command.phases
    by_phase = graph.spec.profiles.get(graph.start) if graph else None
    return by_phase or command.profile


def decide_turn(state: SessionState, command: TurnCommand) -> NewEvents:
    """Return the events of a client's command on an open session."""
    match command:
        case SubmitTurn():
            return submit_turn(state, command)
        case CancelTurn():
            return cancel_turn(state, command)
        case CloseSession():
            return close_session(state, command)
        case DescribeSession():
            return describe_session(state, command)
        case ShareSession():
            return share_session(state, command)
        case ExcludeTurn() | RestoreTurn():
            return set_turn_exclusion(state, command)
        case DisplayTurn():
            return set_turn_display(state, command)
        case RedactReply():
            return redact_reply(state, command)
        case RedactText():
            return redact_text(state, command)
        case RedactTurn():
            return redact_turn(state, command)
        case BeginErasure():
            return begin_erasure(state, command)
        case EndErasure():
            return end_erasure(state, command)
        case GiveFeedback():
            return record_feedback(state, command)
        case GiveEntryFeedback():
            return record_entry_feedback(state, command)
        case _ as never:
            assert_never(never)


def submit_turn(state: SessionState, command: SubmitTurn) -> NewEvents:
    require_open_session(state)
    require_turn_allowed(state, command)
    turn = state.submitted + 1
    fields = {
        "turn": turn,
        "text": None if command.text is None else PlainText(text=command.text),
        "inputs": command.inputs,
        "references": command.references,
        "meta": command.meta,
        "remembered": command.remembered,
        "user": command.user,
        "overrides": command.overrides,
        "findings": command.findings,
        "parts": command.parts,
    }
    if command.role == "system":
        return _record_system_turn(state, command, fields)
    if state.open is None:
        return (TurnSubmitted.model_validate(fields),)
    match command.policies.second_submit:
        case "reject":
            raise Refused(
                "turn-open",
                f"turn {state.open.turn} is not answered yet",
                fix="wait for it, or cancel it",
            )
        case "queue":
            if len(state.waiting) >= command.policies.queue_limit:
                raise Refused(
                    "queue-full",
                    f"{len(state.waiting)} turns are waiting already",
                    fix="wait until one is answered",
                )
            return (TurnQueued.model_validate(fields),)
        case "interrupt":
            submitted = TurnSubmitted.model_validate(fields)
            return (*cancel_open_turn(state.open, "interrupted", command.cut), submitted)
        case _ as never:
            assert_never(never)


def _record_system_turn(
    state: SessionState, command: SubmitTurn, fields: Mapping[str, object]
) -> NewEvents:
    """Record a text of the application between two turns; no worker has anything to do for it."""
    if not command.text:
        raise Refused("text-missing", "the turn has no text", field="text", fix="send a text")
    if state.open is not None:
        what = f"turn {state.open.turn} is not answered yet"
        raise Refused("turn-open", what, fix="wait for it, or cancel it")
    submitted = TurnSubmitted.model_validate({**fields, "role": command.role})
    return submitted, TurnCompleted(turn=submitted.turn, text=PlainText(text=""))


def cancel_turn(state: SessionState, command: CancelTurn) -> NewEvents:
    waiting = any(waiting.turn == command.turn for waiting in state.waiting)
    if waiting and command.turn is not None:
        cancelled = TurnCancelled(turn=command.turn, reason="cancelled")
        return (cancelled, *report_child_ends(state, [command.turn]))
    if state.open and command.turn in {None, state.open.turn}:
        reports = report_child_ends(state, [state.open.turn])
        given_up = cancel_open_turn(state.open, "cancelled", command.cut)
        return (*given_up, *reports, *release_next_turn(state))
    if command.turn is None or find_settled_turn(state, command.turn):
        raise Refused(
            "nothing-to-cancel", "no such turn is open", field="turn", fix="nothing is left to do"
        )
    raise build_unknown_turn(command.turn)


def close_session(state: SessionState, command: CloseSession) -> NewEvents:
    if state.closed:
        return ()
    ended = cancel_open_turn(state.open, "closed", command.cut) if state.open else ()
    waiting = [each.turn for each in state.waiting]
    cancelled = tuple(TurnCancelled(turn=turn, reason="closed") for turn in waiting)
    left = [*([state.open.turn] if state.open else []), *waiting]
    reports = report_child_ends(state, left)
    return (*ended, *cancelled, *reports, SessionClosed(reason=command.reason))


def describe_session(state: SessionState, command: DescribeSession) -> NewEvents:
    """Record what a description changes, if anything; people rename closed sessions too."""
    stated = check_description(command.description)
    title, labels = stated.title, stated.labels
    described = SessionDescribed(
        title=None if title is None or _has_title(state, title) else PlainText(text=title),
        labels=None if labels == state.labels else labels,
        metadata=None if stated.metadata is None else _patch_metadata(state, stated.metadata),
    )
    return () if described == SessionDescribed() else (described,)


MAX_SHARES: Final = 100
"""Users that a session is shared with; each is in every copy of its state."""


def share_session(state: SessionState, command: ShareSession) -> NewEvents:
    """Let another user in, or no more; closed sessions are shared too."""
    if command.user == state.owner:
        detail = "it is that user's own session"
        raise Refused("invalid", detail, field="user", fix="name another user")
    if state.shares.get(command.user) == command.access:
        return ()
    if command.user not in state.shares and len(state.shares) >= MAX_SHARES:
        detail = f"the session is shared with {MAX_SHARES} users, the most there may be"
        raise Refused("invalid", detail, field="user", fix="end the sharing with another one first")
    return (ShareChanged(user=command.user, access=command.access or "none"),)


def _has_title(state: SessionState, title: str) -> bool:
    if state.title is None:
        return title == ""
    return state.title.digest == PlainText(text=title).digest


def _patch_metadata(state: SessionState, patch: JsonObject) -> JsonObject | None:
    """Return the metadata after a merge patch; None if it changes nothing."""
    patched = merge_metadata(state.metadata, patch)
    check_metadata(patched)
    # As JSON, since 1 and true are equal in Python.
    is_same = encode_canonical(patched) == encode_canonical(state.metadata)
    return None if is_same else patched


def set_turn_exclusion(state: SessionState, command: ExcludeTurn | RestoreTurn) -> NewEvents:
    found = require_settled_turn(state, command.turn)
    if not found.is_usable:
        what = f"turn {command.turn} was {found.status}, and no prompt includes it"
        raise Refused("no-reply", what, field="turn")
    exclude = isinstance(command, ExcludeTurn)
    if found.excluded == exclude:
        return ()
    if not exclude:
        return (TurnRestored(turn=command.turn),)
    return (
        TurnExcluded(turn=command.turn),
        *undo_summaries_of_turn(state, command.turn, "excluded"),
    )


def record_feedback(state: SessionState, command: GiveFeedback) -> NewEvents:
    """Record a vote on the reply of a turn; refuse a turn without one.

    The vote counts for everything that the turn had retrieved and that has no vote of its own.
    """
    _require_judgeable_turn(state, command.turn)
    said = _build_comment(command.comment)
    return (FeedbackGiven(turn=command.turn, vote=command.vote, comment=said),)


def record_entry_feedback(state: SessionState, command: GiveEntryFeedback) -> NewEvents:
    """Record a vote on an entry that a turn took; refuse one that it did not take."""
    _require_judgeable_turn(state, command.turn)
    name = (command.collection, command.entry)
    same = [each for each in command.taken if (each.collection, each.entry) == name]
    judged = [each for each in same if command.revision in {None, each.revision}]
    if not judged:
        raise _build_not_retrieved(command, [each.revision for each in same])
    given = EntryFeedbackGiven(
        turn=command.turn,
        collection=command.collection,
        entry=command.entry,
        revision=judged[-1].revision,
        vote=command.vote,
        comment=_build_comment(command.comment),
    )
    return (given,)


_NAMED_ENTRIES: Final = 10
"""How many entries a refusal names."""


def _build_not_retrieved(command: GiveEntryFeedback, revisions: Sequence[int]) -> Refused:
    """Build the refusal of a vote, with what may be judged; it does not repeat what was sent."""
    turn = command.turn
    if revisions:
        what = f"turn {turn} retrieved another revision of this entry"
        fix = f"send the revision {revisions[-1]}, or none"
        return Refused("not-retrieved", what, field="entry.revision", fix=fix)
    names = list(dict.fromkeys(f"{each.collection}/{each.entry}" for each in command.taken))
    if not names:
        fix = "leave `entry` out, to judge the reply"
        return Refused("not-retrieved", f"turn {turn} retrieved nothing", field="entry", fix=fix)
    more = len(names) - _NAMED_ENTRIES
    listed = ", ".join(names[:_NAMED_ENTRIES]) + (f" and {more} more" if more > 0 else "")
    what = f"turn {turn} did not retrieve this entry"
    return Refused("not-retrieved", what, field="entry", fix=f"judge one of these: {listed}")


def _require_judgeable_turn(state: SessionState, turn: int) -> None:
    if not 1 <= turn <= state.submitted:
        raise build_unknown_turn(turn)
    found = find_settled_turn(state, turn)
    if found is None or found.status != "completed" or found.role == "system":
        what = f"turn {turn} has no reply that could be judged"
        raise Refused("no-reply", what, field="turn", fix="wait until it is answered")


def _build_comment(comment: str | None) -> PlainText | None:
    return None if comment is None else PlainText(text=check_text(comment, "comment"))


def set_turn_display(state: SessionState, command: DisplayTurn) -> NewEvents:
    """Record how user interfaces show a turn; refuse it for what is missing or withheld.

    No prompt contains a display form, so it may be set at any time, and set again.
    """
    turn = command.turn
    if not 1 <= turn <= state.submitted:
        raise build_unknown_turn(turn)
    if command.text is None and command.reply is None:
        fix = "send `text`, `reply` or both"
        raise Refused("bad-display", "the request has no display form", field="reply", fix=fix)
    found = find_settled_turn(state, turn)
    if command.reply is not None and (found is None or found.status != "completed"):
        raise Refused("no-reply", f"turn {turn} has no reply", field="reply")
    if command.reply is not None and found and found.redacted:
        what = f"the reply of turn {turn} is withheld"
        raise Refused("reply-withheld", what, field="reply", fix="leave it out")
    if command.text is not None and found and found.text_redaction:
        what = f"the text of turn {turn} is withheld"
        raise Refused("text-withheld", what, field="text", fix="leave it out")
    text, reply = command.text, command.reply
    return (
        TurnDisplayed(
            turn=turn,
            text=None if text is None else PlainText(text=check_text(text, "text")),
            reply=None if reply is None else PlainText(text=check_text(reply, "reply")),
        ),
    )
