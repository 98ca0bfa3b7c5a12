"""The keyring on a terminal: its generations, and what became of one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.services.cli.views.text_format import escape_controls, format_count
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, WARNING, create_listing
from turnlog.services.seals.keyring_generations import RetirementReport

MAX_UNFIT_LINES: Final = 10
"""Records that are named; `-o json` has all."""


def render_generations(records: Mapping[int, int], keys: Collection[int]) -> RenderableType:
    """List generations with their records, and whether the keyring has their keys."""
    table = create_listing()
    for title in ("generation", "records", "keyring"):
        table.add_column(title)
    for generation, count in records.items():
        table.add_row(str(generation), f"{count:,}", _describe_key(generation, count, keys))
    return table


def _describe_key(generation: int, count: int, keys: Collection[int]) -> Text:
    if generation == max(keys):
        return Text("newest: keys are wrapped under it", GOOD)
    if generation not in keys:
        return Text("missing: nobody opens these", BAD)
    return Text("needed" if count else "not needed any more", MUTED)


def render_rotation(generation: int, file: Path) -> RenderableType:
    """Say what was added, and what is to be done with it."""
    return Group(
        Text(f"generation {generation} added to {escape_controls(str(file))}", GOOD),
        Text(f"new sessions are under it; `turnlog keyring retire {generation - 1}` moves the rest")
        if generation > 1
        else Text("new sessions are under it"),
        Text("keep a copy where no back-up of the store is: without it nobody reads them", MUTED),
    )


def render_retirement(generation: int, report: RetirementReport) -> RenderableType:
    """Say what became of the records of a generation, and of copies of them."""
    return Group(*_iterate_retirement_lines(generation, report))


def _iterate_retirement_lines(generation: int, report: RetirementReport) -> Iterator[Text]:
    yield Text(f"{format_count(report.rewrapped, 'record')} wrapped again", GOOD)
    for each in report.unfit[:MAX_UNFIT_LINES]:
        yield Text(f"{each.tenant} {each.session}: {escape_controls(each.reason)}", BAD)
    if report.unfit:
        left = format_count(len(report.unfit), "record")
        yield Text(f"{left} left under generation {generation}: its line stays", BAD)
        return
    if not report.removed:
        yield Text(f"no record is left under it: remove the keys up to {generation}", WARNING)
        return
    yield Text(f"generation {generation} is in the keyring no more, nor any before it", GOOD)
    yield Text("no back-up of KEYS made before opens now: make a new one, or a restore loses all")
    yield Text("whoever has a copy of the keyring before opens such back-ups: destroy it", WARNING)
