"""Events on a terminal: one sentence per event, as a table or as lines of `turnlog tail`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from pydantic import JsonValue
from rich.table import Table
from rich.text import Text

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import (
    AttemptEnded,
    AttemptStarted,
    CallCompleted,
    ContextAssembled,
)
from turnlog.events.model.memory_events import (
    HistorySummarised,
    MemoryPurged,
    SummaryBegun,
    SummaryFailed,
    SummaryUndone,
)
from turnlog.events.model.phase_events import PhaseEntered
from turnlog.events.model.prompt_events import PromptsSnapshotted
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.session_events import (
    BlueprintMoved,
    ProfileSwitched,
    SessionClosed,
    SessionOpened,
)
from turnlog.events.model.tool_events import (
    PlanMade,
    SchemasRequested,
    StepPlanned,
    ToolCalled,
    ToolReturned,
    ToolsSnapshotted,
    ToolStarted,
)
from turnlog.events.model.turn_events import (
    ChoiceRecorded,
    ReferenceUpdated,
    TurnCancelled,
    TurnCompleted,
    TurnDisplayed,
    TurnExcluded,
    TurnFailed,
    TurnQueued,
    TurnReleased,
    TurnResolved,
    TurnRestored,
    TurnSubmitted,
)
from turnlog.events.registry import EVENT_NAMES, Event, UnknownEvent, format_event_name
from turnlog.services.cli.views.text_format import (
    format_attempt,
    format_content,
    format_count,
    format_digest,
    format_one_line,
    format_time,
    format_turn_ranges,
)
from turnlog.services.cli.views.theme import MUTED, create_listing, get_event_colour


def describe_event(event: Event) -> str:
    """Describe an event on one line."""
    match event:
        case SessionOpened() as opened:
            return _describe_opening(opened)
        case BlueprintMoved() as moved:
            return _describe_move(moved)
        case ProfileSwitched() as switched:
            return _describe_switch(switched)
        case SessionClosed(reason=reason):
            return reason
        case PromptsSnapshotted() as pinned:
            return f"for {pinned.provider}: {_format_prompt_files(pinned)}"
        case ToolsSnapshotted() as pinned:
            return f"for profile {pinned.profile}: {', '.join(pinned.tools) or 'no tool'}"
        case SchemasRequested(profile=profile):
            return f"for profile {profile}"
        case PlanMade(turn=turn, steps=steps):
            return f"turn {turn} in {format_count(steps, 'step')}"
        case StepPlanned(turn=turn, step=step, goal=goal, given=given):
            known = f" · known from event {given}" if given else ""
            return f"turn {turn} step {step} {format_content(goal)}{known}"
        case TurnSubmitted(turn=turn, text=text) | TurnQueued(turn=turn, text=text):
            return f"turn {turn} {format_content(text)}"
        case TurnReleased(turn=turn) | TurnExcluded(turn=turn) | TurnRestored(turn=turn):
            return f"turn {turn}"
        case TurnDisplayed(turn=turn, text=text, reply=reply):
            said = " and ".join(("what was said",) * bool(text) + ("the reply",) * bool(reply))
            return f"turn {turn} · a form to look at of {said}"
        case TurnCompleted(turn=turn, text=text, fallback=fallback):
            why = f" · no model's: {fallback.code}" if fallback else ""
            return f"turn {turn} {format_content(text)}{why}"
        case TurnResolved() as resolved:
            return _describe_resolution(resolved)
        case ReferenceUpdated(turn=turn, identifiers=identifiers):
            return f"turn {turn} was about {_format_identifiers(identifiers)}"
        case SummaryBegun(view=view, turns=turns):
            return f"{view}: {format_turn_ranges(turns)} are to be summed up"
        case HistorySummarised(view=view, turns=turns, summary=summary):
            return f"{view}: for {format_turn_ranges(turns)} {format_content(summary)}"
        case SummaryFailed(view=view, code=code, detail=detail):
            return f"{view} {code}: {detail}"
        case SummaryUndone() as undone:
            return _describe_undo(undone)
        case MemoryPurged(upto=upto):
            return f"no window shows turns up to {upto} any more"
        case TurnFailed(turn=turn, code=code, detail=detail):
            return f"turn {turn} {code}: {detail}"
        case TurnCancelled(turn=turn, reason=reason):
            return f"turn {turn} {reason}"
        case AttemptStarted(call=call, attempt=attempt, worker=worker):
            return f"call {call} · attempt {attempt} · {worker}"
        case ContextAssembled() as context:
            return _describe_context(context)
        case AttemptEnded() as ended:
            return _describe_attempt_end(ended)
        case CallCompleted(call=call, finish=finish, characters=characters):
            return f"call {call} · {finish} · {format_count(characters, 'character')}"
        case ReplyRedacted(turn=turn, rule=rule, reason=reason):
            return f"turn {turn} by {rule}: {reason}"
        case ChoiceRecorded(phase=phase, choice=choice, label=label):
            return f"{phase}: {choice}" + (f" “{label}”" if label else "")
        case ToolCalled(call=call, tool=tool, arguments=arguments):
            return f"call {call} · {tool} {arguments}"
        case ToolStarted(call=call, tool=tool, attempt=attempt):
            return f"call {call} · {tool} · attempt {attempt}"
        case ToolReturned() as returned:
            return _describe_tool_return(returned)
        case PhaseEntered() as entered:
            return _describe_phase(entered)
        case UnknownEvent(data=data):
            return f"not known to this release · {format_count(len(data), 'field')}"
        case _ as never:
            assert_never(never)


def _describe_tool_return(returned: ToolReturned) -> str:
    gave = format_count(returned.characters, "character") if returned.characters else ""
    what = ", ".join(filter(None, (gave, "in short" * (returned.treatment == "condensed"))))
    why = f": {returned.detail}" if returned.detail else ""
    came = f"call {returned.call} · {returned.tool} {returned.outcome}{why}"
    return f"{came} · {what}" if what else came


def _describe_undo(undone: SummaryUndone) -> str:
    why = "as was asked" if undone.turn is None else f"turn {undone.turn} was {undone.cause}"
    return f"{undone.view}: that of event {undone.sequence}, {why}"


def _describe_resolution(resolved: TurnResolved) -> str:
    about = resolved.intent or resolved.entity or "nothing known"
    which = f" · {_format_identifiers(resolved.identifiers)}" if resolved.identifiers else ""
    return f"turn {resolved.turn} is about {about}{which}, {resolved.reason}"


def _format_identifiers(identifiers: Mapping[str, JsonValue]) -> str:
    return ", ".join(f"{name} {value}" for name, value in identifiers.items())


def _describe_phase(entered: PhaseEntered) -> str:
    way = f"{entered.before} → {entered.phase}" if entered.before else entered.phase
    by = f" · {entered.signal}" if entered.signal else ""
    hidden = f" · not {', '.join(entered.hidden)}" if entered.hidden else ""
    told = f" · {format_content(entered.carried)}" if entered.carried else ""
    return f"{way}{by}" + (", forced" if entered.forced else "") + hidden + told


def _describe_opening(opened: SessionOpened) -> str:
    blueprint = f"{opened.blueprint.name} v{opened.blueprint.version}"
    given = [f"{name}={value}" for name, value in opened.attributes.items() if value is not None]
    return " · ".join([blueprint, f"profile {opened.profile}", *given])


def _describe_move(moved: BlueprintMoved) -> str:
    old, new = moved.before, moved.blueprint
    way = f"{new.name} v{old.version} → v{new.version} · {format_digest(new.digest)}"
    released = f" · prompts of {', '.join(moved.released)} pinned anew" if moved.released else ""
    return f"{way}{released}"


def _describe_switch(switched: ProfileSwitched) -> str:
    way = switched.profile
    if switched.before != switched.profile:
        way = f"{switched.before} → {switched.profile}"
    model = f" · model {switched.model}" if switched.model else ""
    return f"{way}{model} · {switched.reason}"


def _format_prompt_files(pinned: PromptsSnapshotted) -> str:
    layers = [f"{layer} ← {file.path}" for layer, file in pinned.layers.items()]
    return ", ".join(layers) or "no prompt file"


def _describe_context(context: ContextAssembled) -> str:
    manifest = context.manifest
    parts = sum(part.is_included for part in manifest.parts)
    size = f"{format_count(manifest.tokens, 'token')} in {format_count(parts, 'part')}"
    return f"call {context.call} · {context.model} · {size} · {format_digest(manifest.digest)}"


def _describe_attempt_end(ended: AttemptEnded) -> str:
    outcome = f"{ended.outcome} ({ended.fault.code})" if ended.fault else ended.outcome
    return (
        f"call {ended.call} · {outcome} · {format_attempt(ended.usage, ended.cost, ended.timings)}"
    )


_EVENT_NAME_WIDTH: Final = max(len(name) for name in EVENT_NAMES) + 2
"""Columns that fit any event name."""


def render_events(events: Iterable[RecordedEvent]) -> Table:
    """Render a session's events as a table, one per line."""
    table = create_listing(whole_width=True)
    table.add_column("seq", justify="right", style=MUTED, no_wrap=True)
    table.add_column("time", style=MUTED, no_wrap=True)
    table.add_column("event", no_wrap=True)
    table.add_column("what happened", no_wrap=True, overflow="ellipsis", ratio=1)
    for recorded in events:
        table.add_row(
            str(recorded.sequence),
            format_time(recorded.envelope.time),
            _render_event_name(recorded),
            Text(format_one_line(describe_event(recorded.event))),
        )
    return table


def render_event_line(recorded: RecordedEvent, *, with_session: bool) -> Text:
    """Render one event as a line of `turnlog tail`."""
    line = Text().append(f"{format_time(recorded.envelope.time)} ", MUTED)
    if with_session:
        line.append(f"{recorded.session} ", MUTED)
    line.append(f"{recorded.sequence:>4} ", MUTED)
    name = _render_event_name(recorded)
    name.pad_right(_EVENT_NAME_WIDTH - name.cell_len)
    return line.append_text(name).append(format_one_line(describe_event(recorded.event)))


def _render_event_name(recorded: RecordedEvent) -> Text:
    return Text(
        format_one_line(format_event_name(recorded.envelope.type)),
        get_event_colour(recorded.envelope.type),
    )
