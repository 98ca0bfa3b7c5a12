"""The table at the end of a run: one line for each figure, with how it was measured."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.figure_types import Figure
from benchmarks.machine_facts import MachineFacts


def show_table(before: MachineFacts, found: Sequence[Figure]) -> None:
    """Print figures, and whether each reaches its target."""
    table = Table(show_lines=True)
    for heading in ("figure", "value", "target", "measured"):
        table.add_column(heading, overflow="fold", justify="left")
    for figure in found:
        table.add_row(figure.name, _format_value(figure), _format_target(figure), figure.measured)
    console = Console(width=140)
    console.print(table)
    console.print(
        f"{before.system}, {before.cores} cores, Python {before.python}, fsync on every ack"
    )
    if not before.is_quiet:
        console.print(f"load {before.load} before it began: the ratios hold, the times do not")


def _format_value(figure: Figure) -> str:
    return f"{_format_number(figure.value)} {figure.unit}"


def _format_target(figure: Figure) -> str:
    if figure.target is None:
        return "reported"
    reached = "reached" if figure.reached else "NOT reached"
    return f"{figure.target.sense} {_format_number(figure.target.bound)}\n{reached}"


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"
