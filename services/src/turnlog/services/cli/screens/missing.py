"""The explanation of a turn's reply on a terminal.

It shows the turn and its outcome; then the exact prompt layer by layer, with the origin and the
event of each text; then the parts that were left out, with the rule and the event that did it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.table import Table
from rich.text import Text

from turnlog.projections.audit.origins import PartOrigin
from turnlog.projections.audit.why import Why
from turnlog.services.cli.screens.origins import caused, gone
from turnlog.services.cli.screens.palette import QUIET, WARY
from turnlog.services.cli.screens.prompt import source


def left_out(absent: Iterable[PartOrigin]) -> Table:
    """Render parts that were left out: what each is, the rule, and the events behind it."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for each in absent:
        part = each.part
        why = Text(part.rule or "nothing to say", WARY).append(f" · {part.treatment}", QUIET)
        if part.source:
            why.append(" · ", QUIET).append_text(source(part.source))
        table.add_row(Text(part.layer, "bold"), Text("\n").join((why, *_by(each))))
    return table


def _by(origin: PartOrigin) -> Iterator[Text]:
    if origin.removed:
        yield from (Text("└ ", QUIET).append_text(gone(each)) for each in origin.removed)
    else:
        yield from (Text("└ by ", QUIET).append_text(caused(each)) for each in origin.because)


def steps(why: Why) -> Table:
    """Render the trim steps of a prompt with the tokens that each saved."""
    table = Table.grid(padding=(0, 2))
    for step in why.steps:
        within = step.section or step.component
        limit = f"within {within}" if within else f"of {why.budget:,}"
        table.add_row(
            Text(step.step, WARY),
            Text(step.on, "bold"),
            Text(f"{step.before:,} → {step.after:,} tokens"),
            Text(limit, QUIET),
        )
    return table
