"""A session as a Markdown transcript: who said what, and what happened to each turn.

It is for people and contains what a user saw: of a withheld reply only the replacement, whenever it
was withheld. A turn is rendered once it is settled and then dropped, so that memory does not grow
with the session. Later changes to a turn must therefore be collected first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from turnlog.events.content import Content, PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.redaction_events import ReplyRedacted, TextRedacted
from turnlog.events.model.session_events import (
    PhaseEntered,
    ProfileSwitched,
    SessionClosed,
    SessionOpened,
)
from turnlog.events.model.turn_events import (
    ChoiceRecorded,
    TurnExcluded,
    TurnRestored,
    find_turn_end,
)
from turnlog.projections.session_views import turn_activity
from turnlog.projections.session_views.session_history import (
    HistoryTurn,
    TurnsByNumber,
    apply_redactions,
    update_history,
)
from turnlog.projections.session_views.turn_activity import (
    NO_ACTIVITY,
    ActivityByTurn,
    TurnActivity,
    format_activity,
    withhold_texts,
)


@dataclass(slots=True)
class LaterChanges:
    """Changes to turns after their settlement, up to the end of the session."""

    redactions: dict[int, list[RecordedEvent]] = field(
        default_factory=dict[int, list[RecordedEvent]]
    )
    excluded: set[int] = field(default_factory=set[int])

    def apply_event(self, recorded: RecordedEvent) -> None:
        """Apply one more event."""
        match recorded.event:
            case ReplyRedacted(turn=turn) | TextRedacted(turn=turn):
                self.redactions.setdefault(turn, []).append(recorded)
            case TurnExcluded(turn=turn):
                self.excluded.add(turn)
            case TurnRestored(turn=turn):
                self.excluded.discard(turn)
            case _:
                pass

    def apply_to_turn(self, turn: HistoryTurn) -> HistoryTurn:
        """Return a turn with the later changes applied."""
        (left,) = apply_redactions((turn,), self.redactions.get(turn.turn, ()))
        return replace(left, excluded=turn.turn in self.excluded)


@dataclass(slots=True)
class UnsettledTurns:
    """Turns that are not settled yet, with their activity so far."""

    turns: TurnsByNumber = field(default_factory=TurnsByNumber)
    activity: ActivityByTurn = field(default_factory=ActivityByTurn)

    def apply_event(self, recorded: RecordedEvent) -> None:
        """Apply one more event."""
        update_history(self.turns, recorded)
        turn_activity.update_activity(self.activity, recorded)

    def render_settled(self, turn: int, later_changes: LaterChanges) -> str:
        """Render a turn and drop it."""
        return render_turn(
            later_changes.apply_to_turn(self.turns.pop(turn)), self.activity.pop(turn, NO_ACTIVITY)
        )

    def render_remaining(self, later_changes: LaterChanges) -> Iterator[str]:
        """Yield the rendered turns that the session never settled."""
        return (self.render_settled(turn, later_changes) for turn in sorted(self.turns))


def render_transcript(
    events: Iterable[RecordedEvent], later_changes: LaterChanges, unsettled: UnsettledTurns
) -> Iterator[str]:
    """Yield the transcript of further events of a session."""
    for recorded in events:
        unsettled.apply_event(recorded)
        match recorded.event:
            case SessionOpened() as opened:
                yield _render_opening(recorded, opened)
            case PhaseEntered() as entered:
                yield _render_note(_render_phase(entered))
            case ProfileSwitched(profile=profile, model=model):
                yield _render_note(f"Profile {profile}{f', model {model}' if model else ''}.")
            case ChoiceRecorded(choice=choice, label=label):
                yield _render_note(f"Chosen: {label or choice}.")
            case SessionClosed(reason=reason):
                yield _render_note(f"Closed: {reason}.")
            case event:
                end = find_turn_end(event)
                if end and end.turn in unsettled.turns:
                    yield unsettled.render_settled(end.turn, later_changes)


def render_turn(turn: HistoryTurn, activity: TurnActivity) -> str:
    """Render one turn."""
    marks: list[str] = [turn.status] if turn.status != "completed" else []
    marks += ["withheld"] if turn.redacted else []
    marks += [f"text withheld: {turn.text_withheld}"] if turn.text_withheld else []
    marks += ["left out of later windows"] if turn.excluded else []
    marks += ["fallback text, not from a model"] if turn.fallback else []
    mark = f" · {', '.join(marks)}" if marks else ""
    blocks = [f"### Turn {turn.turn} · {turn.submitted_at}{mark}\n"]
    blocks += _render_message(turn.role.capitalize(), turn.text)
    activity = withhold_texts(activity, turn.kept) if turn.redacted else activity
    blocks += (
        _render_quote("Worked out", "\n".join(format_activity(activity)))
        if activity != NO_ACTIVITY
        else []
    )
    blocks += _render_message("Reply", turn.reply or turn.cut_reply)
    return "\n".join([*blocks, _render_note(turn.reason) if turn.reason else ""])


def _render_opening(recorded: RecordedEvent, opened: SessionOpened) -> str:
    by = f"{opened.blueprint.name} {opened.blueprint.version}, {opened.profile}"
    return f"## Session {recorded.session}\n\n{by}; opened {recorded.envelope.time}.\n\n"


def _render_phase(entered: PhaseEntered) -> str:
    by = f", by {entered.signal}" if entered.signal else ""
    hidden = f", which does not see {', '.join(entered.hidden)}" if entered.hidden else ""
    carried = entered.carried.text if isinstance(entered.carried, PlainText) else ""
    return f"Phase {entered.phase}{by}{hidden}.{f' {carried}' if carried else ''}"


def _render_note(text: str) -> str:
    """Render a note on one line, whatever line breaks the text has."""
    return f"*{' '.join(text.split())}*\n\n"


def _render_message(speaker: str, content: Content | None) -> list[str]:
    """Quote a message, so that no Markdown in it takes effect in the page."""
    if content is None:
        return []
    return _render_quote(
        speaker, content.text if isinstance(content, PlainText) else "(no longer readable)"
    )


def _render_quote(speaker: str, text: str) -> list[str]:
    quoted = "\n".join(f"> {line}".rstrip() for line in text.splitlines())
    return [f"**{speaker}**\n", f"{quoted or '> (nothing)'}\n"]
