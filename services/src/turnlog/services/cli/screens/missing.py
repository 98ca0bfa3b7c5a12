"""The explanation of a turn's reply on a terminal.

It shows the turn and its outcome; then the exact prompt layer by layer, with the origin and the
event of each text; then the parts that were left out, with the rule and the event that did it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.table import Table
from rich.text import Text

from turnlog.projections.audit.origins import PartProvenance
from turnlog.projections.audit.why import TurnExplanation
from turnlog.services.cli.screens.origins import render_cause, render_removal
from turnlog.services.cli.screens.palette import MUTED, WARNING
from turnlog.services.cli.screens.prompt import render_source


def render_explained_omissions(absent: Iterable[PartProvenance]) -> Table:
    """Render parts that were left out: what each is, the rule, and the events behind it."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for each in absent:
        part = each.part
        why = Text(part.rule or "nothing to say", WARNING).append(f" · {part.treatment}", MUTED)
        if part.source:
            why.append(" · ", MUTED).append_text(render_source(part.source))
        table.add_row(Text(part.layer, "bold"), Text("\n").join((why, *_render_causes(each))))
    return table


def _render_causes(origin: PartProvenance) -> Iterator[Text]:
    if origin.removed:
        yield from (Text("└ ", MUTED).append_text(render_removal(each)) for each in origin.removed)
    else:
        yield from (Text("└ by ", MUTED).append_text(render_cause(each)) for each in origin.because)


def render_trim_steps(why: TurnExplanation) -> Table:
    """Render the trim steps of a prompt with the tokens that each saved."""
    table = Table.grid(padding=(0, 2))
    for step in why.steps:
        within = step.section or step.component
        limit = f"within {within}" if within else f"of {why.budget:,}"
        table.add_row(
            Text(step.step, WARNING),
            Text(step.on, "bold"),
            Text(f"{step.before:,} → {step.after:,} tokens"),
            Text(limit, MUTED),
        )
    return table
