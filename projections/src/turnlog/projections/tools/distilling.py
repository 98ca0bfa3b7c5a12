"""Distilling: what prompts are told of a tool's result.

A result that is short stands as it is. Of a long one its shape is told: how many rows it has, their
columns, a few of them; of a text its length and its beginning. The whole is a blob that anybody
may read. The same result is told the same way for ever, so that what was recorded can be explained.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import JsonValue

from turnlog.projections.blueprint.tools import Distil
from turnlog.projections.window.request import canonical

BEGINNING: Final = 400
"""Characters shown of a text that is too long."""
_LATER: Final = Distil(rows=20, chars=400)
"""What of a result is told as long as nobody works with it."""
CELL: Final = 60
"""Characters shown of a value in a sample."""


@dataclass(frozen=True, slots=True)
class Distilled:
    """What is told of a result."""

    text: str
    treatment: Literal["kept", "condensed"]


def told(tool: str, arguments: str, gave: str) -> str:
    """Tell of a call and of what it gave in one text, so that nothing parts them."""
    return f"{tool} {arguments or '{}'}\n{gave}"


def distilled(result: str, spec: Distil) -> Distilled:
    """Tell of a result as far as its length allows."""
    rows = _rows(result)
    if len(result) <= spec.chars and (rows is None or len(rows) <= spec.rows):
        return Distilled(result, "kept")
    return Distilled(_table(rows, spec) if rows else _beginning(result), "condensed")


def summarised(result: str) -> str | None:
    """Tell of a result what later turns are told; none where that is no less."""
    gist = distilled(result, _LATER)
    return gist.text if len(gist.text) < len(result) else None


def _rows(result: str) -> Sequence[JsonValue] | None:
    """Find the list that a result is, or that is the only one in it."""
    try:
        found: JsonValue = json.loads(result)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, dict):
        lists = [each for each in found.values() if isinstance(each, list)]
        found = lists[0] if len(lists) == 1 else None
    return found if isinstance(found, list) else None


def _table(rows: Sequence[JsonValue], spec: Distil) -> str:
    columns = dict.fromkeys(name for row in rows if isinstance(row, dict) for name in row)
    head = f"{len(rows)} rows" + (f" with columns {', '.join(columns)}" if columns else "")
    sample = [_short(row) for row in rows[: spec.sample]]
    return "\n".join((f"{head}; the first {len(sample)}:", *sample) if sample else (head,))


def _short(row: JsonValue) -> str:
    if isinstance(row, dict):
        return canonical({name: _cell(value) for name, value in row.items()})[: CELL * 4]
    return canonical(_cell(row))


def _cell(value: JsonValue) -> JsonValue:
    spelt = value if isinstance(value, str) else canonical(value)
    return f"{spelt[:CELL]}..." if len(spelt) > CELL else value


def _beginning(result: str) -> str:
    return f"{len(result)} characters; the first {BEGINNING}:\n{result[:BEGINNING]}"
