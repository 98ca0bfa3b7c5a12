"""Prompt overrides on a terminal: those of a user, and one with its text."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.contract.override_payloads import (
    OverridePage,
    OverrideTextView,
)
from turnlog.services.cli.views.text_format import escape_controls, format_date_time
from turnlog.services.cli.views.theme import GOOD, MUTED, WARNING, create_listing


def render_overrides(page: OverridePage) -> RenderableType:
    """List the overrides of a user."""
    if not page.overrides:
        return Text("the user has no prompt of their own", MUTED)
    table = create_listing()
    for title in ("blueprint", "in place of", "version", "characters", "set at"):
        table.add_column(title, no_wrap=True)
    for each in page.overrides:
        version, size = str(each.version), f"{each.characters:,}"
        table.add_row(each.blueprint, each.path, version, size, format_date_time(each.at))
    return table


def render_override(view: OverrideTextView) -> RenderableType:
    """Render an override with its text, and what its names in braces mean."""
    title = Text(view.path, "bold").append(f"  {view.user}, version {view.version}", MUTED)
    return Group(title, Text(escape_controls(view.text)), *_list_notes(view))


def render_override_change(view: OverrideTextView) -> RenderableType:
    """Render what was set, without its text."""
    title = Text("✓ ", GOOD).append(f"{view.path} of {view.user}", "default")
    return Group(title.append(f"  version {view.version}", MUTED), *_list_notes(view))


def render_override_removal() -> Text:
    """Render that an override was removed."""
    return Text("✓ ", GOOD).append("removed", "default")


def _list_notes(view: OverrideTextView) -> Iterator[Text]:
    if view.includes:
        yield Text(f"includes {', '.join(view.includes)}", MUTED)
    if view.unknown_names:
        names = ", ".join(f"{{{name}}}" for name in view.unknown_names)
        yield Text(f"! {names}: no layer has this name, so it stays as it is", WARNING)
