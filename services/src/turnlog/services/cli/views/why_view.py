"""The explanation of a turn's reply on a terminal.

It shows the turn and its outcome; then the exact prompt layer by layer, with the origin and the
event of each text; then the parts that were left out, with the rule and the event that did it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from turnlog.events.content import Content, PlainText
from turnlog.events.model.manifest import AppliedTrimStep
from turnlog.events.model.retrieval_events import CandidateOutcome
from turnlog.projections.audit.explain.child_turns import ExplainedChild, ExplainedParent
from turnlog.projections.audit.explain.count_provenance import ExplainedFactor, ExplainedRefusal
from turnlog.projections.audit.explain.part_provenance import PartProvenance
from turnlog.projections.audit.explain.retrieval_provenance import UntakenEntry
from turnlog.projections.audit.explain.turn_effects import TurnCall
from turnlog.projections.audit.explain.turn_explanation import (
    PhaseStanding,
    TurnExplanation,
    WithheldReply,
    WithheldSubmission,
)
from turnlog.services.api.prompt_payloads import RecordedPromptView
from turnlog.services.cli.views.prompt_view import render_proof, render_source
from turnlog.services.cli.views.provenance_view import (
    render_cause,
    render_removal,
    render_traced_prompt,
    render_votes,
)
from turnlog.services.cli.views.session_view import REPLY_COLOUR, USER_COLOUR, format_finding
from turnlog.services.cli.views.text_format import escape_controls, format_count
from turnlog.services.cli.views.theme import (
    BAD,
    FAMILY_COLOURS,
    GOOD,
    MUTED,
    WARNING,
    render_labelled_text,
)
from turnlog.services.cli.views.token_view import render_token_bars


def render_explained_omissions(absent: Iterable[PartProvenance]) -> Table:
    """Render parts that were left out: what each is, the rule, and the events behind it."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for each in absent:
        part = each.part
        reason = Text(part.rule or "nothing to say", WARNING).append(f" · {part.treatment}", MUTED)
        if part.source:
            reason.append(" · ", MUTED).append_text(render_source(part.source))
        table.add_row(Text(part.layer, "bold"), Text("\n").join((reason, *_render_causes(each))))
    return table


_OUTCOME_LABELS: Final[dict[CandidateOutcome, str]] = {
    "taken": "taken",
    "score": "below the least confidence",
    "efficiency": "below the least efficiency",
    "feedback": "more votes against it than for it",
    "rank": "enough better ones",
    "tokens": "no room within the token limit",
}


def render_untaken_entries(untaken: Iterable[UntakenEntry]) -> Table:
    """Render what was found and not taken: each entry with the reason and its scores."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for each in untaken:
        votes = f" · votes {each.feedback:+}" if each.feedback else ""
        figures = f" · score {each.score:g}, confidence {each.confidence:g}{votes}"
        reason = Text(_OUTCOME_LABELS[each.outcome], WARNING).append(
            f"{figures} · event {each.sequence}", MUTED
        )
        lines = Text("\n").join((reason, *render_votes(each.votes, each.more_votes)))
        table.add_row(Text(f"{each.collection}/{each.entry}", "bold"), lines)
    return table


def _render_causes(origin: PartProvenance) -> Iterator[Text]:
    if origin.removed:
        yield from (Text("└ ", MUTED).append_text(render_removal(each)) for each in origin.removed)
    else:
        yield from (Text("└ by ", MUTED).append_text(render_cause(each)) for each in origin.because)


def render_trim_steps(explanation: TurnExplanation) -> Table:
    """Render the trim steps of a prompt with the tokens that each saved."""
    table = Table.grid(padding=(0, 2))
    for step in explanation.steps:
        within = step.section or step.component
        limit = f"within {within}" if within else f"of {explanation.budget:,}"
        table.add_row(
            Text(step.step, WARNING),
            Text(step.on, "bold"),
            Text(f"{step.before:,} → {step.after:,} tokens"),
            Text(f"{limit}{_describe_lasting_cut(step)}", MUTED),
        )
    return table


def _describe_lasting_cut(step: AppliedTrimStep) -> str:
    """Say how far a lasting cut reaches, which call made it, and what ends it."""
    if step.through is None or step.limit is None:
        return ""
    is_one = step.through == 1
    reach, stay = ("turn 1", "stays") if is_one else (f"turns up to {step.through}", "stay")
    made = f"cut by call {step.since}, {stay}" if step.since else stay
    return f"; {reach} {made} out until {step.limit:,} are exceeded"


_LABEL_WIDTH: Final = 9
"""Columns of the labels."""

_HIDDEN_TEXT: Final = "(its text is sealed or erased)"


def render_why(
    explanation: TurnExplanation, prompt: RecordedPromptView, most_characters: int | None = None
) -> RenderableType:
    """Render everything recorded about one turn's reply, with at most so much of each text."""
    return Group(
        *_render_outcome(explanation, prompt),
        Text(),
        *_render_prompt_layers(explanation, prompt, most_characters),
        render_proof(prompt),
    )


def _render_outcome(
    explanation: TurnExplanation, prompt: RecordedPromptView
) -> Iterator[RenderableType]:
    title = Text().append(f"why turn {explanation.turn} was answered so", "bold")
    yield title.append(f"  {explanation.session}", MUTED)
    if explanation.said is not None:
        yield render_labelled_text("asked", _get_text(explanation.said), USER_COLOUR, _LABEL_WIDTH)
    colour = BAD if explanation.withheld else REPLY_COLOUR
    yield render_labelled_text(
        "reply",
        _get_text(explanation.reply) if explanation.reply else explanation.status,
        colour,
        _LABEL_WIDTH,
    )
    yield Text()
    yield _render_facts(explanation, prompt)


def _get_text(content: Content) -> str:
    return content.text if isinstance(content, PlainText) else _HIDDEN_TEXT


def _render_facts(explanation: TurnExplanation, prompt: RecordedPromptView) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=MUTED, justify="right", width=_LABEL_WIDTH + 1)
    grid.add_column(overflow="fold")
    if explanation.started:
        grid.add_row("started", Text("by itself  ").append_text(render_cause(explanation.started)))
    else:
        grid.add_row("turn", render_cause(explanation.asked))
    for found in explanation.findings:
        grid.add_row("found", Text(format_finding(found.rule, found.action, found.count), WARNING))
    if explanation.parent:
        grid.add_row("child of", _render_parent(explanation.parent))
    call = Text(f"{explanation.call} · {prompt.manifest.kind} · {prompt.model}  ")
    grid.add_row("call", call.append_text(render_cause(explanation.fixed)))
    others = [
        _render_other_call(made) for made in explanation.calls if made.call != explanation.call
    ]
    for place, other in enumerate(others):
        grid.add_row("" if place else "beside", other)
    if explanation.standing:
        grid.add_row("phase", _render_phase(explanation.standing))
    grid.add_row("safety", _render_safety(explanation.withheld, explanation.withheld_texts))
    if explanation.superseded:
        grid.add_row("instead of", _describe_superseded(explanation))
    if explanation.counted:
        grid.add_row("counted", _render_factor(explanation.counted))
    if explanation.refused:
        grid.add_row("shortened", _render_refusal(explanation.refused))
    for place, child in enumerate(explanation.children):
        grid.add_row("" if place else "children", _render_child(child))
    for place, each in enumerate(explanation.consequences):
        effect = Text(escape_controls(each.what)).append("  ").append_text(render_cause(each.by))
        grid.add_row("" if place else "led to", effect)
    return grid


def _describe_superseded(explanation: TurnExplanation) -> str:
    refused = explanation.refused.call if explanation.refused else None
    is_refused = refused in explanation.superseded
    because = "which was too long" if is_refused else "whose sources had changed"
    return f"call {', '.join(explanation.superseded)}, {because}"


def _render_factor(counted: ExplainedFactor) -> Text:
    line = Text(f"times {counted.factor:g}, as the provider counted call {counted.call}")
    return line.append("  ").append_text(render_cause(counted.by)) if counted.by else line


def _render_refusal(refused: ExplainedRefusal) -> Text:
    tokens = "" if refused.tokens is None else f" of {format_count(refused.tokens, 'token')}"
    line = Text(f"after the provider refused call {refused.call}{tokens}", WARNING)
    if refused.limit is not None:
        line.append(f"; its model takes {refused.limit:,}", "default")
    return line.append("  ").append_text(render_cause(refused.by)) if refused.by else line


def _render_other_call(made: TurnCall) -> Text:
    line = Text(f"{made.call} · {made.kind} · {format_count(made.tokens, 'token')} ")
    results = escape_controls(", ".join(made.gave)) or "nothing"
    return line.append(f"→ {results}  ", MUTED).append_text(render_cause(made.fixed))


def _render_child(child: ExplainedChild) -> Text:
    line = Text(f"{child.profile} {child.outcome or 'is asked'}")
    return line.append_text(_render_way_on(child.session, child.turn))


def _render_parent(parent: ExplainedParent) -> Text:
    line = Text(f"{parent.session}, turn {parent.turn}")
    line.append(f"\n└ asked by {escape_controls(parent.id)} of call {parent.call}", MUTED)
    return line.append_text(_render_way_on(parent.session, parent.turn))


def _render_way_on(session: str, turn: int) -> Text:
    """Render the command that explains a turn of another session, on a line of its own.

    So it fits 80 columns with the id of a child session, which has 46 characters.
    """
    return Text(f"\n└ turnlog why {session} {turn}", MUTED)


def _render_phase(standing: PhaseStanding) -> Text:
    exchanges = f", after {format_count(standing.exchanges, 'exchange')}"
    line = Text(standing.phase, FAMILY_COLOURS["phase"]).append(exchanges, "default")
    by = f", by {standing.signal}" if standing.signal else ""
    by += f", sees {', '.join(standing.shared)}" if standing.shared else ""
    by += f", not {', '.join(standing.hidden)}" if standing.hidden else ""
    return line.append(f"{by}  ", MUTED).append_text(render_cause(standing.since))


def _render_safety(withheld: WithheldReply | None, texts: Sequence[WithheldSubmission]) -> Text:
    if withheld is None and not texts:
        return Text("✓ ", GOOD).append("nothing was withheld", "default")
    found = [_render_withheld_text(each) for each in texts]
    return Text("\n").join([*found, *([_render_withheld_reply(withheld)] if withheld else [])])


def _render_withheld_text(withheld: WithheldSubmission) -> Text:
    what = f"{format_count(len(withheld.spans), 'part')} of it" if withheld.spans else "all of it"
    line = Text(f"✗ the text, {what}, withheld by {withheld.rule}", BAD)
    line.append(f": {escape_controls(withheld.reason)}", "default")
    return line.append("\n").append_text(render_cause(withheld.by))


def _render_withheld_reply(withheld: WithheldReply) -> Text:
    line = Text(f"✗ withheld by {withheld.rule}", BAD)
    line.append(f": {escape_controls(withheld.reason)}", "default")
    line.append("\n").append_text(render_cause(withheld.by))
    return line.append(" · an auditor reads it by `turnlog withheld`" * withheld.kept, MUTED)


def _render_prompt_layers(
    explanation: TurnExplanation, prompt: RecordedPromptView, most_characters: int | None
) -> Iterator[RenderableType]:
    yield Rule(Text("sent to the model", "bold"), align="left", style=MUTED)
    yield from render_traced_prompt(prompt, explanation.parts, most_characters)
    yield Text()
    yield render_token_bars(prompt.manifest)
    if explanation.steps:
        yield Text("\ncut to fit", MUTED)
        yield render_trim_steps(explanation)
    absent = [each for each in explanation.parts if not each.part.is_included]
    if absent:
        yield Text("\nleft out", MUTED)
        yield render_explained_omissions(absent)
    if explanation.untaken:
        yield Text("\nfound, and not taken", MUTED)
        yield render_untaken_entries(explanation.untaken)
    yield Text()
