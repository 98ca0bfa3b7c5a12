"""Sessions on a terminal: a list, one with its turns and calls, and its conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.contract.call_payloads import CallList, CallRow, CallTimes
from turnlog.contract.session_payloads import (
    OpenTurnView,
    SessionPage,
    SessionRow,
    SessionView,
    UnreadableMessage,
)
from turnlog.contract.turn_payloads import (
    HistoryView,
    MediaPartView,
    PhaseVisit,
    TurnToolUse,
    TurnView,
)
from turnlog.contract.usage_payloads import TurnUsage
from turnlog.contract.value_names import InputFindingAction, SessionOrder
from turnlog.events.content import encode_canonical
from turnlog.projections.session_views.turn_activity import (
    describe_unfinished_use,
    format_arguments,
)
from turnlog.services.cli.views.text_format import (
    UNKNOWN_TEXT,
    escape_controls,
    format_cost,
    format_cost_sum,
    format_count,
    format_date_time,
    format_digest,
    format_duration,
    format_one_line,
    format_time,
)
from turnlog.services.cli.views.theme import (
    BAD,
    FAMILY_COLOURS,
    GOOD,
    MUTED,
    WARNING,
    create_listing,
    render_budget_share,
    render_labelled_text,
)

LABEL_WIDTH: Final = 9
"""Columns of the speaker's label."""

USER_COLOUR: Final = FAMILY_COLOURS["turn"]

REPLY_COLOUR: Final = FAMILY_COLOURS["session"]

TOOL_COLOUR: Final = FAMILY_COLOURS["tool"]

PHASE_COLOUR: Final = FAMILY_COLOURS["phase"]

HIDDEN_TEXT: Final = "(its text is sealed or erased)"

_NO_TEXT: Final = "(nothing: it started by itself, or its text is sealed or erased)"


def render_conversation(history: HistoryView) -> RenderableType:
    """Render turns as a conversation, phase by phase if the session has phases."""
    end = render_unreadable_end(history.unreadable, history.sequence)
    if not history.stays:
        return Group(*(line for turn in history.turns for line in _render_turn(turn)), *end)
    turns = {turn.turn: turn for turn in history.turns}
    phases = (line for visit in history.stays for line in _render_phase_visit(visit, turns))
    return Group(*phases, *end)


def render_unreadable_end(unreadable: UnreadableMessage | None, sequence: int) -> Iterator[Text]:
    """Yield what is stored behind the last event of a session and is no event."""
    if unreadable is not None:
        reason = f"the message behind event {sequence} cannot be read: {unreadable.reason}"
        yield Text(format_one_line(f"stopped: {reason}"), BAD)
        yield Text(f"nothing can follow it; go on with a fork: --at {sequence}", MUTED)


def _render_phase_visit(
    visit: PhaseVisit, turns: Mapping[int, TurnView]
) -> Iterator[RenderableType]:
    yield Text(format_phase_heading(visit), PHASE_COLOUR)
    if visit.carried:
        yield render_labelled_text("told", visit.carried, PHASE_COLOUR, LABEL_WIDTH)
    yield Text("")
    for turn in visit.turns:
        yield from _render_turn(turns[turn])


def format_phase_heading(visit: PhaseVisit) -> str:
    """Return one line that names a phase visit and the phases it can and cannot see."""
    heading = f"phase {visit.phase}" + (f", after {visit.before}" if visit.before else "")
    others = ", ".join(phase for phase in visit.shared if phase != visit.phase)
    sees = f" · sees {others}" if others else ""
    hidden = f" · not {', '.join(visit.hidden)}" if visit.hidden else ""
    return format_one_line(f"{heading}{sees}{hidden}")


def _render_turn(turn: TurnView) -> Iterator[RenderableType]:
    yield _render_turn_heading(turn)
    if turn.role == "system":
        text = HIDDEN_TEXT if turn.text is None else turn.text
        yield render_labelled_text("system", text, MUTED, LABEL_WIDTH)
        yield Text("")
        return
    yield render_user_text(turn.text if turn.text is not None else _NO_TEXT)
    for part in turn.parts:
        yield render_labelled_text(part.kind, format_part(part), MUTED, LABEL_WIDTH)
    if turn.steps or turn.tools:
        yield render_labelled_text(
            "plan" if turn.steps else "tools",
            "\n".join(format_turn_activity(turn)),
            TOOL_COLOUR,
            LABEL_WIDTH,
        )
    if turn.reply == "":
        yield render_labelled_text(
            label="reply", text="(empty)", colour=REPLY_COLOUR, width=LABEL_WIDTH, style=MUTED
        )
    elif turn.reply is not None:
        yield render_labelled_text(
            "reply", turn.reply, BAD if turn.redacted else REPLY_COLOUR, LABEL_WIDTH
        )
    elif shown := [each for each in (turn.partial, turn.cut_line) if each]:
        yield render_labelled_text("cut", "\n\n".join(shown), REPLY_COLOUR, LABEL_WIDTH)
    elif turn.status == "completed":
        yield render_labelled_text(
            label="reply", text=HIDDEN_TEXT, colour=REPLY_COLOUR, width=LABEL_WIDTH, style=MUTED
        )
    for part in turn.reply_parts:
        yield render_labelled_text(part.kind, format_part(part), MUTED, LABEL_WIDTH)
    yield Text("")


def format_part(part: MediaPartView) -> str:
    """Describe a picture, a recording or a file in a line."""
    named = part.name or "without a name"
    return f"{named} · {part.media_type} · {part.size:,} bytes · {part.digest}"


def format_turn_activity(turn: TurnView) -> Iterator[str]:
    """Yield a line for each step and each tool use before the reply."""
    for step in turn.steps:
        done = " (done in the previous turn)" if step.given else ""
        yield format_one_line(f"{step.step}. {step.goal or HIDDEN_TEXT}{done}")
        yield from (f"   {_format_tool_use(use)}" for use in turn.tools if use.step == step.step)
    yield from (_format_tool_use(use) for use in turn.tools if use.step is None)


def _format_tool_use(use: TurnToolUse) -> str:
    outcome = use.outcome or describe_unfinished_use(use)
    more = f": {use.detail}" if use.detail else ""
    size = f", {format_count(use.characters, 'character')}" if use.characters else ""
    short = " condensed" if use.condensed else ""
    named = f" · {use.call} {use.id}"
    if use.child is not None and use.outcome:
        named += f" · turn {use.child.turn} of {use.child.session}"
    arguments = format_arguments(use.arguments, use.approval.edited if use.approval else None)
    return format_one_line(f"{use.tool} {arguments} · {outcome}{more}{size}{short}{named}")


def render_user_text(text: str) -> RenderableType:
    """Render the user's text of a turn."""
    return render_labelled_text("you", text, USER_COLOUR, LABEL_WIDTH)


def _render_turn_heading(turn: TurnView) -> Text:
    heading = (
        Text()
        .append(f"turn {turn.turn}", "bold")
        .append(f"  {format_time(turn.submitted_at)}", MUTED)
    )
    for mark, colour in _list_marks(turn):
        heading.append("  ").append(format_one_line(mark), colour)
    return heading


def _list_marks(turn: TurnView) -> Iterator[tuple[str, str]]:
    """Yield what is unusual about a turn, with its colour; an ordinary turn has no marks."""
    if turn.status in {"failed", "cancelled"}:
        reason = f"{turn.status}: {turn.reason}" + (f": {turn.detail}" if turn.detail else "")
        yield reason, BAD if turn.status == "failed" else WARNING
    elif turn.status != "completed":
        yield turn.status, WARNING
    for found in turn.findings:
        yield format_finding(found.rule, found.action, found.count), WARNING
    if turn.redacted:
        yield f"reply withheld: {turn.reason}", BAD
    if turn.text_withheld is not None:
        yield f"text withheld: {turn.text_withheld}", BAD
    if turn.excluded:
        yield "left out of windows", WARNING
    if turn.purged:
        yield "purged from windows", WARNING
    if turn.finish not in {None, "stop"}:
        yield f"ended by {turn.finish}", WARNING
    if turn.fallback:
        yield f"no model's: {turn.fallback}", WARNING
    if not turn.remembered:
        yield "not remembered", MUTED
    for vote in turn.votes:
        judged = f"{vote.collection}/{vote.entry} " if vote.entry else ""
        yield f"{judged}voted {vote.vote}", GOOD if vote.vote == "up" else WARNING


def format_finding(rule: str, action: InputFindingAction, count: int) -> str:
    """Return what a rule of `input_safety` found in a turn, such as `card: 1 masked`."""
    return f"{rule}: {count} {'masked' if action == 'mask' else 'noted'}"


_STATUS_COLOURS = {
    "completed": GOOD,
    "failed": BAD,
    "cancelled": WARNING,
    "open": WARNING,
    "queued": MUTED,
}


def render_sessions(page: SessionPage, order: SessionOrder) -> RenderableType:
    """List sessions, and how to see more of them; how near they are to budgets in that order."""
    word = "older ones" if order == "opened" else "more"
    more = f"\n{word}: --before {page.next}" if page.next else ""
    table = _render_session_table(page, shows_budget=order == "near")
    return Group(table, *([Text(more, MUTED)] if more else []))


def _render_session_table(page: SessionPage, *, shows_budget: bool) -> Table:
    table = create_listing(whole_width=True)
    table.add_column("session", no_wrap=True)
    table.add_column("opened", no_wrap=True, style=MUTED)
    table.add_column("blueprint", no_wrap=True)
    table.add_column("turns", justify="right")
    if shows_budget:
        table.add_column("budget", justify="right")
    table.add_column("cost", justify="right", style=MUTED)
    table.add_column("title", no_wrap=True, overflow="ellipsis", ratio=1)
    for session in page.sessions:
        blueprint = f"{session.blueprint} v{session.version}"
        opened = format_date_time(session.opened_at)
        table.add_row(
            session.session,
            opened,
            blueprint,
            str(session.turns),
            *([render_budget_share(session.budget_share)] if shows_budget else []),
            _format_session_cost(session),
            _render_session_title(session),
        )
    return table


def _render_session_title(session: SessionRow) -> Text:
    title = Text()
    if session.stopped:
        title.append("stopped ", BAD)
    if session.redacted:
        title.append("redacted ", BAD)
    if session.closed_at:
        title.append("closed ", WARNING)
    title.append(format_one_line(session.title or ""))
    return title.append("".join(f"  #{format_one_line(each)}" for each in session.labels), MUTED)


def render_session(
    session: SessionView,
    history: HistoryView,
    calls: CallList,
    forks: Sequence[SessionRow] = (),
) -> RenderableType:
    """Render a session with its phases, turns and calls and the sessions forked from it."""
    turns, made = render_turns(history.turns), render_calls(calls.calls)
    headings = [
        Text(),
        *(Text(format_phase_heading(visit), PHASE_COLOUR) for visit in history.stays),
    ]
    phases = headings if history.stays else ()
    cost = format_cost_sum(calls.usage.cost) if calls.calls else ""
    lines = [f"together {cost}"] if cost else []
    lines += map(_format_turn_cost, calls.turns)
    total = [Text(line, MUTED) for line in lines]
    facts = render_session_facts(session, forks)
    end = render_unreadable_end(session.unreadable, session.sequence)
    return Group(facts, *end, *phases, Text(), turns, Text(), made, *total)


def _format_turn_cost(turn: TurnUsage) -> str:
    """Format what a turn and its children cost."""
    own, theirs, both = (
        format_cost_sum(usage.cost) for usage in (turn.usage, turn.children_usage, turn.total_usage)
    )
    return f"turn {turn.turn} {own} · its children {theirs} · with them {both}"


def _format_session_cost(session: SessionRow) -> str:
    """Format what a session cost, and after a plus what the children did that it asked."""
    theirs = session.children_usage
    added = [format_cost(theirs.cost)] if theirs else []
    return " + ".join(filter(None, (format_cost(session.usage.cost), *added)))


def render_session_facts(session: SessionView, forks: Sequence[SessionRow] = ()) -> Table:
    """Render the facts of a session and its relations to others."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=MUTED, justify="right")
    grid.add_column(overflow="fold")
    for name, fact in (*_list_facts(session), *_list_relations(session, forks)):
        grid.add_row(name, fact)
    return grid


def _list_relations(session: SessionView, forks: Sequence[SessionRow]) -> Iterator[tuple[str, str]]:
    if origin := session.origin:
        what = "forked from" if origin.kind == "fork" else "child of"
        yield "origin", f"{what} {origin.session} at sequence {origin.sequence:,}"
    for fork in forks:
        if fork.origin:
            at = f"{fork.session} at sequence {fork.origin.sequence:,}"
            cost = format_cost(fork.usage.cost)
            spent = " · ".join(filter(None, (format_count(fork.turns, "turn"), cost)))
            is_fork = fork.origin.kind == "fork"
            yield ("fork", at) if is_fork else ("child", f"{at} · {spent}")


def _list_facts(session: SessionView) -> Iterator[tuple[str, str | Text]]:
    yield "session", Text(session.session, "bold")
    if session.title:
        yield "title", format_one_line(session.title)
    if session.owner is not None:
        yield "owner", format_one_line(session.owner)
    if session.shares:
        shares = ", ".join(f"{share.user} ({share.access})" for share in session.shares)
        yield "shared with", format_one_line(shares)
    if session.labels:
        yield "labels", format_one_line(", ".join(session.labels))
    if session.metadata:
        yield "metadata", escape_controls(encode_canonical(session.metadata))
    blueprint = Text(f"{session.blueprint} v{session.version}")
    yield "blueprint", blueprint.append(f"  {format_digest(session.digest)}", MUTED)
    yield "profile", session.profile + (f" · {session.model}" if session.model else "")
    attributes = ", ".join(f"{name}={value}" for name, value in session.attributes.items())
    yield "attributes", escape_controls(attributes)
    if session.phase is not None:
        yield "phase", f"{session.phase} · {format_count(session.exchanges, 'exchange')}"
    if session.choices:
        yield "choices", ", ".join(f"{each.phase}: {each.choice}" for each in session.choices)
    yield "state", _render_state(session)
    yield "events", f"{session.sequence:,}"


def _describe_open_turn(opened: OpenTurnView) -> str:
    if not opened.approvals:
        return "is being answered"
    waiting = ", ".join(f"{each.approval} ({each.tool})" for each in opened.approvals)
    return f"waits for approval {format_one_line(waiting)}"


def _render_state(session: SessionView) -> Text:
    state = Text().append(*(("closed", WARNING) if session.closed else ("open", GOOD)))
    state.append(f" · {format_count(session.turns, 'turn')}, {session.completed} with a reply")
    if session.open:
        state.append(f" · turn {session.open.turn} {_describe_open_turn(session.open)}", WARNING)
    return state


def render_turns(turns: Iterable[TurnView]) -> Table:
    table = create_listing(whole_width=True)
    for title in ("turn", "time", "status"):
        table.add_column(title, no_wrap=True)
    table.add_column("what was said", no_wrap=True, overflow="ellipsis", ratio=2)
    table.add_column("reply", no_wrap=True, overflow="ellipsis", ratio=3)
    for turn in turns:
        status = "redacted" if turn.redacted else turn.status
        text, reply = (
            format_one_line(turn.text or ""),
            format_one_line(turn.reply or turn.reason or ""),
        )
        colour = BAD if turn.redacted else _STATUS_COLOURS[turn.status]
        table.add_row(
            str(turn.turn), format_time(turn.submitted_at), Text(status, colour), text, reply
        )
    return table


def render_calls(calls: Iterable[CallRow]) -> Table:
    """List calls with the usage of all their attempts, and how long they and the waiting took."""
    table = create_listing()
    table.add_column("call", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("model", overflow="fold")
    table.add_column("finish", no_wrap=True)
    for title in ("prompt", "sent", "received"):
        table.add_column(title, justify="right", no_wrap=True)
    # These wrap between words: `≥ $0.000028 (guessed)`, `3.1 s in 2 attempts, 2.0 s waiting`
    table.add_column("cost", justify="right", min_width=9)
    table.add_column("took", justify="right", min_width=9)
    for call in calls:
        what = (call.call, call.kind, call.model, call.finish or "", f"{call.tokens:,}")
        table.add_row(*what, *_format_call_figures(call))
    return table


def _format_call_figures(call: CallRow) -> tuple[str, ...]:
    return (
        _format_number(call.input_tokens),
        _format_number(call.output_tokens),
        format_cost(call.cost),
        format_times(call.times, len(call.attempts)),
    )


def format_times(times: CallTimes, attempts: int) -> str:
    """Format how long a call took, in how many attempts, and how much of it was waiting."""
    taken = "" if times.total_ms is None else format_duration(times.total_ms)
    tries = f"in {format_count(attempts, 'attempt')}" if attempts > 1 else ""
    waiting = f"{format_duration(times.waiting_ms)} waiting" if times.waiting_ms else ""
    return ", ".join(filter(None, (f"{taken} {tries}".strip(), waiting)))


def _format_number(figure: int | None) -> str:
    return UNKNOWN_TEXT if figure is None else f"{figure:,}"
