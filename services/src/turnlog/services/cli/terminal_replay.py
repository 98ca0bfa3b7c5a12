"""Replay a session on a terminal: what its user or its models saw, in order, with pauses.

Scenes are built from the log alone. The partial reply of an abandoned attempt is shown and then
taken back, as it was. The log does not record the timing of single tokens, so a reply is spread
evenly over the time that its call took.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from rich.console import Console, RenderableType
from rich.text import Text

from turnlog.events.content import Content, PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.attempt_figures import AttemptTimings
from turnlog.events.model.call_events import (
    AttemptEnded,
    AttemptStarted,
    ContextAssembled,
    find_attempt_end,
)
from turnlog.events.model.memory_events import HistorySummarised, MemoryPurged, SummaryUndone
from turnlog.events.model.redaction_events import ReplyRedacted, TextRedacted
from turnlog.events.model.session_events import (
    BlueprintMoved,
    PhaseEntered,
    ProfileSwitched,
    SessionClosed,
    SessionOpened,
)
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ApprovalRequested,
    StepPlanned,
    ToolReturned,
)
from turnlog.events.model.turn_events import (
    ChoiceRecorded,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnQueued,
    TurnSubmitted,
)
from turnlog.events.registry import Event
from turnlog.projections.session_views.phase_visits import filter_visits, list_phase_visits
from turnlog.services.cli.client.event_reads import EventQuery, read_events
from turnlog.services.cli.client.prompt_reads import fetch_prompt
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.cli.console import create_output_console
from turnlog.services.cli.conversation.reply_display import LabelledTextWriter
from turnlog.services.cli.views.prompt_view import render_model_messages
from turnlog.services.cli.views.session_view import LABEL_WIDTH, REPLY_COLOUR, render_user_text
from turnlog.services.cli.views.text_format import format_one_line, format_turn_ranges
from turnlog.services.cli.views.theme import MUTED

SceneSpeaker = Literal["you", "reply", "note", "prompt"]
"""The text of a `prompt` scene is the id of its call; the player fetches the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
        if ended := find_attempt_end(event):
            spoke = _compute_reply_seconds(ended.timings)
        line = _build_draft(
            event, spoke, is_retry=isinstance(event, AttemptStarted) and event.call == tried
        )
        tried = event.call if isinstance(event, AttemptStarted) else tried
        if line is not None and (prompts or line.speaker != "prompt"):
            at = datetime.fromisoformat(recorded.envelope.time)
            since = (at - shown_at).total_seconds() if shown_at else 0.0
            shown_at = at
            yield ReplayScene(
                speaker=line.speaker,
                text=line.text,
                pause_seconds=max(0.0, since - line.duration_seconds),
                duration_seconds=line.duration_seconds,
                turn=line.turn,
            )


def _compute_reply_seconds(timings: AttemptTimings | None) -> float:
    """Return the seconds from the first text to the last."""
    return (timings.total - (timings.first_token or 0)) / 1_000 if timings else 0.0


def _build_draft(event: Event, reply_seconds: float, *, is_retry: bool) -> _SceneDraft | None:
    match event:
        case SessionOpened(blueprint=blueprint, origin=origin):
            origin_text = (
                f", {origin.kind} of {origin.session} at {origin.sequence}" if origin else ""
            )
            opens = f"the session opens by {blueprint.name} v{blueprint.version}"
            return _SceneDraft("note", opens + origin_text)
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
        case ReplyRedacted() | TextRedacted():
            what = "reply" if isinstance(event, ReplyRedacted) else "text"
            said = _get_text(event.replacement)
            return _SceneDraft("note", f"the {what} of turn {event.turn} is withheld: {said}")
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
            suffix = f": {detail}" if detail else ""
            return _SceneDraft("note", f"{tool} {outcome}{suffix}")
        case ApprovalRequested(tool=tool):
            return _SceneDraft("note", f"{tool} waits for approval")
        case ApprovalDecided(tool=tool, decision=decision, reason=reason):
            suffix = f": {reason}" if reason else ""
            word = "approved" if decision == "approve" else "refused"
            return _SceneDraft("note", f"{tool} is {word}{suffix}")
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
    carried_text = f"; it is told: {_get_text(entered.carried)}" if entered.carried else ""
    return f"phase {entered.phase} begins{hidden}{carried_text}"


def _get_text(content: Content | None) -> str:
    return content.text if isinstance(content, PlainText) else "(sealed or erased)"


MAX_PAUSE_SECONDS: Final = 3.0
"""The longest pause in seconds; long breaks are shortened to it."""

_WORDS: Final = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class ScenePlayer:
    """Plays scenes one after the other."""

    console: Console
    speed: float
    """Factor to the original pace; 0 plays without pauses."""
    wait_for_page: Callable[[], Awaitable[None]] | None = None
    """Awaited before each turn but the first, when the user steps through."""
    render_prompt: Callable[[str], Awaitable[RenderableType]] | None = None
    """Returns the rendered prompt of a call."""

    async def play_scenes(self, scenes: Iterable[ReplayScene]) -> None:
        for scene in scenes:
            if scene.turn and scene.turn > 1 and self.wait_for_page:
                await self.wait_for_page()
            else:
                await self._wait_scaled(min(MAX_PAUSE_SECONDS, scene.pause_seconds))
            await self._show_scene(scene)

    async def _show_scene(self, scene: ReplayScene) -> None:
        match scene.speaker:
            case "you":
                self.console.print(render_user_text(scene.text))
            case "note":
                self.console.print(
                    Text(f"{'':{LABEL_WIDTH}}   {format_one_line(scene.text)}", MUTED)
                )
            case "reply":
                await self._write_reply(scene)
            case "prompt" if self.render_prompt:
                self.console.print(await self.render_prompt(scene.text))
            case "prompt":
                pass

    async def _write_reply(self, scene: ReplayScene) -> None:
        typist = LabelledTextWriter(self.console, "reply", REPLY_COLOUR, LABEL_WIDTH)
        words = _WORDS.findall(scene.text)
        for word in words:
            await self._wait_scaled(scene.duration_seconds / len(words))
            typist.write_text(word)
        typist.end_text()

    async def _wait_scaled(self, seconds: float) -> None:
        if self.speed:
            await asyncio.sleep(seconds / self.speed)


async def play_session(
    service: ServiceClient,
    session: str,
    speed: float,
    phase: str | None,
    *,
    step: bool,
    prompts: bool,
) -> None:
    """Play a session or one phase as its user saw it; `prompts` adds what its models saw."""
    console = create_output_console()
    events = [event async for event in read_events(service, EventQuery(session))]
    if phase is not None:
        visits = filter_visits(list_phase_visits(events), phase)
        events = [each for each in events if any(visit.has_event(each) for visit in visits)]
    if step and not sys.stdin.isatty():
        fix = "leave it out, or run it in a terminal"
        raise Refused("bad-option", "--step needs a terminal", field="--step", fix=fix)
    paced = speed if console.is_terminal else 0.0

    async def prompt(call: str) -> RenderableType:
        return render_model_messages(await fetch_prompt(service, session, call))

    turn_page = _wait_for_enter if step else None
    player = ScenePlayer(console, paced, turn_page, prompt if prompts else None)
    await player.play_scenes(build_scenes(events, prompts=prompts))


async def _wait_for_enter() -> None:
    # Not `input` in a thread, because Ctrl-C would then wait for the key.
    pressed = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, pressed.set)
    try:
        await pressed.wait()
        sys.stdin.readline()
    finally:
        loop.remove_reader(sys.stdin)
