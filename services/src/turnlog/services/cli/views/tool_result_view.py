"""Render the result of a tool use."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from turnlog.contract import api_paths
from turnlog.contract.call_payloads import ToolResultView
from turnlog.services.cli.views.text_format import (
    escape_controls,
    format_count,
    format_digest,
    format_one_line,
)
from turnlog.services.cli.views.theme import MUTED


def render_tool_result(found: ToolResultView) -> Group:
    """Render the full result of a tool use."""
    heading = Text(format_one_line(found.tool), "bold").append(
        f" {format_one_line(found.arguments)}", "default"
    )
    outcome = found.outcome or "not come back yet"
    summary = " · ".join(
        filter(None, (outcome, format_one_line(found.detail), *_describe_result_size(found)))
    )
    return Group(heading, Text(summary, MUTED), *_list_texts(found))


def _list_texts(found: ToolResultView) -> tuple[Text, ...]:
    """Return the result, or what prompts say of one that is too large and where all of it is."""
    if found.whole is None:
        return (Text(escape_controls(found.result or "")),)
    path = api_paths.BLOB.format(digest=found.whole.digest)
    return Text(escape_controls(found.text or "")), Text(f"the whole result: GET {path}", MUTED)


def _describe_result_size(found: ToolResultView) -> tuple[str, ...]:
    if found.digest is None:
        return ()
    note = "prompts hold a summary of it" if found.treatment == "condensed" else ""
    size = format_count(found.whole.size, "byte") if found.whole else ""
    characters = format_count(found.characters, "character")
    return characters, size, f"blob {format_digest(found.digest)}", note
