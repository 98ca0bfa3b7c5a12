from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import JsonValue

from turnlog.projections.blueprint.storable import mended
from turnlog.projections.blueprint.tools import Distil
from turnlog.projections.tools.reading import members_of
from turnlog.projections.window.request import canonical

BEGINNING: Final = 400
"""Characters shown of a text that is too long."""
LIST: Final = 300
"""Characters shown of the names of columns, and of members."""
ROW: Final = 120
"""Characters shown of a row."""
CELL: Final = 60
"""Characters shown of a value in a row, of a name, and of one member among many."""
ASKED: Final = 2_000
"""Characters shown of the arguments of a call."""
_LATER: Final = Distil(rows=20, chars=400)
"""The limits for results in later turns."""


@dataclass(frozen=True, slots=True)
class Distilled:
    """The text of a result for a prompt, and whether it was condensed."""

    text: str
    treatment: Literal["kept", "condensed"]


def told(tool: str, arguments: str, gave: str) -> str:
    """Format a tool call and its result as one text, so that they cannot be separated.

    All lines but the first are indented, so that no result can look like that of another tool.
    """
    text = f"{tool} {_cut(arguments or '{}', ASKED)}\n{gave}"
    return "  ".join(text.splitlines(keepends=True))


def distilled(result: str, spec: Distil) -> Distilled:
    """Return a short result as it is and condense a long one."""
    members = members_of(result)
    if len(result) <= spec.chars and _rows(result, members) <= spec.rows:
        return Distilled(result, "kept")
    text = mended(_told(result, members or {}, spec))
    return Distilled(text, "condensed") if len(text) < len(result) else Distilled(result, "kept")


def summarised(result: str) -> str | None:
    """Return the summary of a result for later turns; None if it would not be shorter."""
    gist = distilled(result, _LATER)
    return gist.text if gist.treatment == "condensed" else None


def _rows(result: str, members: Mapping[str, JsonValue] | None) -> int:
    if members is None:
        return _lines(result)
    return max((len(each) for each in members.values() if isinstance(each, list)), default=0)


def _lines(text: str) -> int:
    return text.strip("\n").count("\n") + 1


def _told(result: str, members: Mapping[str, JsonValue], spec: Distil) -> str:
    try:
        return _shape(result, members, spec) if members else _beginning(result)
    # A value that could be parsed may still be nested too deep for encoding.
    except RecursionError:
        return _beginning(result)


def _shape(result: str, members: Mapping[str, JsonValue], spec: Distil) -> str:
    """Format the longest list as a table, after the other members."""
    lists = {name: rows for name, rows in members.items() if isinstance(rows, list)}
    long = {name: size for name, rows in lists.items() if (size := len(canonical(rows))) > CELL}
    table = max(long, key=lambda name: long[name], default=None)
    rest = {name: value for name, value in members.items() if name != table}
    lines = [f"{len(result)} characters, in short: {_beside(rest)}"] if rest else []
    if table is not None:
        lines += _table(table, lists[table], spec)
    return "\n".join(lines)


def _beside(members: Mapping[str, JsonValue]) -> str:
    room = max(CELL, LIST // len(members))
    return _listed(
        [f"{_cut(name, CELL)}: {_member(value, room)}" for name, value in members.items()]
    )


def _member(value: JsonValue, room: int) -> str:
    spelt = canonical(value)
    if isinstance(value, list) and len(spelt) > CELL:
        return f"{len(value)} rows"
    return _cut(spelt, room)


def _table(name: str, rows: Sequence[JsonValue], spec: Distil) -> Iterator[str]:
    columns = [*dict.fromkeys(name for row in rows if isinstance(row, dict) for name in row)]
    names = _listed([_cut(each, CELL) for each in columns])
    head = f"{len(rows)} rows" + (f" with columns {names}" if columns else "")
    sample = [_cut(_row(row), ROW) for row in rows[: spec.sample]]
    yield (f"{_cut(name, CELL)}: " if name else "") + head + _first(len(sample))
    yield from sample


def _first(number: int) -> str:
    return f"; the first {number}:" if number else ""


def _row(row: JsonValue) -> str:
    if isinstance(row, dict):
        return canonical({name: _cell(value) for name, value in row.items()})
    return canonical(_cell(row))


def _cell(value: JsonValue) -> JsonValue:
    spelt = value if isinstance(value, str) else canonical(value)
    return _cut(spelt, CELL) if len(spelt) > CELL else value


def _listed(texts: Sequence[str]) -> str:
    """Join as many texts as fit, at least one, and the number of the others."""
    shown, room = 1, LIST - len(texts[0]) if texts else 0
    while shown < len(texts) and (room := room - len(texts[shown]) - 2) >= 0:
        shown += 1
    rest = [f"and {len(texts) - shown} more"] if len(texts) > shown else []
    return ", ".join((*texts[:shown], *rest))


def _cut(text: str, most: int) -> str:
    return f"{text[:most]}..." if len(text) > most else text


def _beginning(result: str) -> str:
    lines = f"{number} lines, " if (number := _lines(result)) > 1 else ""
    return f"{lines}{len(result)} characters; the first {BEGINNING}:\n{result[:BEGINNING]}"
