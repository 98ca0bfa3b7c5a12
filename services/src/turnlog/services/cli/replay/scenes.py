"""The scenes of a session: what its user or its models saw, in order, with pauses.

Scenes are built from the log alone. The partial reply of an abandoned attempt is shown and then
taken back, as it was. The log does not record the timing of single tokens, so a reply is spread
evenly over the time it took.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from turnlog.events.content import Content, PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import (
    AttemptEnded,
    AttemptStarted,
    AttemptTimings,
    ContextAssembled,
)
from turnlog.events.model.memory_events import HistorySummarised, MemoryPurged, SummaryUndone
from turnlog.events.model.phase_events import PhaseEntered
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.session_events import (
    BlueprintMoved,
    ProfileSwitched,
    SessionClosed,
    SessionOpened,
)
from turnlog.events.model.tool_events import StepPlanned, ToolReturned
from turnlog.events.model.turn_events import (
    ChoiceRecorded,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnQueued,
    TurnSubmitted,
)
from turnlog.events.registry import Event
from turnlog.services.cli.views.text_format import format_turn_ranges

SceneSpeaker = Literal["you", "reply", "note", "prompt"]
"""The text of a `prompt` scene is the id of its call; the player fetches the prompt."""


@dataclass(frozen=True, slots=True)
class ReplayScene:
    """Something that appeared on the screen."""

    speaker: SceneSpeaker
    text: str
    pause_seconds: float = 0.0
    """Seconds before it began."""
    duration_seconds: float = 0.0
    """Seconds over which its text arrived."""
    turn: int | None = None
    """The turn that begins with it."""


@dataclass(frozen=True, slots=True)
class _SceneDraft:
    """A scene whose pause is not computed yet."""

    speaker: SceneSpeaker
    text: str
    duration_seconds: float = 0.0
    turn: int | None = None


def build_scenes(
    events: Iterable[RecordedEvent], *, prompts: bool = False
) -> Iterator[ReplayScene]:
    """Yield the scenes of a session's events; `prompts` includes the prompts of its calls."""
    shown_at: datetime | None = None
    spoke, tried = 0.0, ""
    for recorded in events:
        event = recorded.event
        if isinstance(event, AttemptEnded):
            spoke = _compute_reply_seconds(event.timings)
        line = _build_draft(
            event, spoke, is_retry=isinstance(event, AttemptStarted) and event.call == tried
        )
        tried = event.call if isinstance(event, AttemptStarted) else tried
        if line is not None and (prompts or line.speaker != "prompt"):
            at = datetime.fromisoformat(recorded.envelope.time)
            since = (at - shown_at).total_seconds() if shown_at else 0.0
            shown_at = at
            yield ReplayScene(
                line.speaker,
                line.text,
                max(0.0, since - line.duration_seconds),
                line.duration_seconds,
                line.turn,
            )


def _compute_reply_seconds(timings: AttemptTimings | None) -> float:
    """Return the seconds from the first text to the last."""
    return (timings.total - (timings.first_token or 0)) / 1_000 if timings else 0.0


def _build_draft(event: Event, reply_seconds: float, *, is_retry: bool) -> _SceneDraft | None:
    match event:
        case SessionOpened(blueprint=blueprint, origin=origin):
            came = f", {origin.kind} of {origin.session} at {origin.sequence}" if origin else ""
            opens = f"the session opens by {blueprint.name} v{blueprint.version}"
            return _SceneDraft("note", opens + came)
        case TurnSubmitted(turn=turn, text=text) | TurnQueued(turn=turn, text=text):
            return _SceneDraft("you", _get_text(text), turn=turn) if text else None
        case ContextAssembled(call=call):
            return _SceneDraft("prompt", call)
        case AttemptStarted(attempt=attempt) if is_retry:
            return _SceneDraft("note", f"attempt {attempt} begins anew")
        case AttemptEnded(partial=partial) if partial:
            return _SceneDraft("reply", _get_text(partial), reply_seconds)
        case TurnCompleted(text=text):
            return _SceneDraft("reply", _get_text(text), reply_seconds)
        case TurnFailed(turn=turn, code=code, detail=detail):
            return _SceneDraft("note", f"turn {turn} has no reply: {code}, {detail}")
        case TurnCancelled(turn=turn, reason=reason):
            return _SceneDraft("note", f"turn {turn} has no reply: {reason}")
        case ReplyRedacted(turn=turn, replacement=replacement):
            return _SceneDraft(
                "note", f"the reply of turn {turn} is withheld: {_get_text(replacement)}"
            )
        case HistorySummarised(turns=turns, summary=summary):
            return _SceneDraft(
                "note", f"{format_turn_ranges(turns)} are summed up: {_get_text(summary)}"
            )
        case SummaryUndone(sequence=sequence):
            return _SceneDraft("note", f"the summary of event {sequence} is undone")
        case MemoryPurged(upto=upto):
            return _SceneDraft("note", f"the memory of turns up to {upto} is purged")
        case ChoiceRecorded(choice=choice, label=label):
            return _SceneDraft("note", f"the choice is {label or choice}")
        case PhaseEntered() as entered:
            return _SceneDraft("note", _describe_phase(entered))
        case ProfileSwitched(profile=profile, model=model):
            answers = f", {model} answers" if model else ""
            return _SceneDraft("note", f"the session switches to profile {profile}{answers}")
        case StepPlanned(step=step, goal=goal):
            return _SceneDraft("note", f"step {step}: {_get_text(goal)}")
        case ToolReturned(tool=tool, outcome=outcome, detail=detail):
            why = f": {detail}" if detail else ""
            return _SceneDraft("note", f"{tool} {outcome}{why}")
        case BlueprintMoved(blueprint=blueprint):
            return _SceneDraft(
                "note", f"the session goes on by {blueprint.name} v{blueprint.version}"
            )
        case SessionClosed(reason=reason):
            return _SceneDraft("note", f"the session closes: {reason}")
        case _:
            return None


def _describe_phase(entered: PhaseEntered) -> str:
    hidden = f", and does not see {', '.join(entered.hidden)}" if entered.hidden else ""
    told = f"; it is told: {_get_text(entered.carried)}" if entered.carried else ""
    return f"phase {entered.phase} begins{hidden}{told}"


def _get_text(content: Content | None) -> str:
    return content.text if isinstance(content, PlainText) else "(sealed or erased)"
