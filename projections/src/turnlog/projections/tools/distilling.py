"""Distilling: what prompts are told of a tool's result.

A result that is short stands as it is. Of a long one its shape is told: what its members are, how
many rows its table has, their columns, a few of them; of a text its length and its beginning. Each
of these has a bound, whatever a server sends. The whole is a blob that anybody may read.
"""

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
"""What of a result is told as long as nobody works with it."""


@dataclass(frozen=True, slots=True)
class Distilled:
    """What is told of a result."""

    text: str
    treatment: Literal["kept", "condensed"]


def told(tool: str, arguments: str, gave: str) -> str:
    """Tell of a call and of what it gave in one text, so that nothing parts them.

    All lines but the first are set in, so that no result looks like that of another tool.
    """
    text = f"{tool} {_cut(arguments or '{}', ASKED)}\n{gave}"
    return "  ".join(text.splitlines(keepends=True))


def distilled(result: str, spec: Distil) -> Distilled:
    """Tell of a result as far as its length allows."""
    members = members_of(result)
    if len(result) <= spec.chars and _rows(result, members) <= spec.rows:
        return Distilled(result, "kept")
    text = mended(_told(result, members or {}, spec))
    return Distilled(text, "condensed") if len(text) < len(result) else Distilled(result, "kept")


def summarised(result: str) -> str | None:
    """Tell of a result what later turns are told; none where that is no less."""
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
    except RecursionError:  # what could just be read may be too deep to be written
        return _beginning(result)


def _shape(result: str, members: Mapping[str, JsonValue], spec: Distil) -> str:
    """Tell of the longest list as of a table, and of what stands beside it."""
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
    """Name as many as there is room for, one at the least, and how many there are beside them."""
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
