"""Segments from an SQL dump: the INSERT statements are parsed and never run.

sqlglot parses the text. Other statements are skipped, and a value that would have to be computed is
a fault. A dump has all columns of its table; those that segments do not have are dropped, as long
as `scope` and `content` are present.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# sqlglot does not type the contents of its nodes; what is read from them is checked here.

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue
from sqlglot import Dialect, exp
from sqlglot.errors import SqlglotError
from sqlglot.expressions.core import Expr
from sqlglot.tokenizer_core import Token, TokenType

from turnlog.projections.blueprint.faults import Fault, FaultyBlueprint
from turnlog.services.cli.importing.rows import KNOWN, Row

_COPY: Final = re.compile(r"^COPY\s.*\sFROM\s+stdin", re.IGNORECASE | re.MULTILINE)
_BACKTICKS: Final = re.compile(r"^INSERT\s+INTO\s+`", re.IGNORECASE | re.MULTILINE)
"""How a MySQL dump begins its rows; no other dump does."""
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def rows(text: str, file: str) -> Iterator[Row]:
    """Yield the rows of a dump; raises `FaultyBlueprint` if it cannot be read."""
    if copied := _COPY.search(text):
        line = text.count("\n", 0, copied.start()) + 1
        fix = "dump with INSERT statements: `pg_dump --column-inserts`"
        raise _faulty(file, line, "COPY is not read", fix)
    dialect = Dialect.get_or_raise("mysql" if _BACKTICKS.search(text) else "postgres")
    known: dict[str, list[str]] = {}
    try:
        for tokens in _statements(dialect.tokenize(text)):
            for statement in dialect.parser().parse(tokens, text):
                if isinstance(statement, exp.Create):
                    known |= _columns(statement)
                elif isinstance(statement, exp.Insert):
                    yield from _rows(statement, known, file, tokens[0].line)
    except SqlglotError as error:
        first = getattr(error, "errors", None) or [{}]
        what = str(first[0].get("description") or "it cannot be read as SQL")
        raise _faulty(file, int(first[0].get("line") or 1), what, "mend the SQL") from None


def _statements(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the tokens of each INSERT and CREATE TABLE statement."""
    statement: list[Token] = []
    for token in (*tokens, None):
        if token is not None and token.token_type != TokenType.SEMICOLON:
            statement.append(token)
            continue
        words = [each.text.upper() for each in statement[:2]]
        if words[:1] == ["INSERT"] or words == ["CREATE", "TABLE"]:
            yield statement
        statement = []


def _columns(created: exp.Create) -> Mapping[str, list[str]]:
    schema = created.this
    if not isinstance(schema, exp.Schema):
        return {}
    names = [each.name.lower() for each in schema.expressions if isinstance(each, exp.ColumnDef)]
    return {schema.this.name.lower(): names}


def _rows(
    insert: exp.Insert, known: Mapping[str, list[str]], file: str, line: int
) -> Iterator[Row]:
    into = insert.this
    if isinstance(into, exp.Schema):
        names = [each.name.lower() for each in into.expressions]
    else:
        names = known.get(into.name.lower(), [])
    if not names:
        fix = "name them: INSERT INTO prompt_segments (id, scope, ...)"
        raise _faulty(file, line, "nobody says which columns these are", fix)
    if not {"scope", "content"} <= set(names):
        return
    values = insert.expression
    if not isinstance(values, exp.Values):
        raise _faulty(file, line, "the rows would have to be computed", "write VALUES (...)")
    for each in values.expressions:
        line = _line(each, line)
        cells = each.expressions if isinstance(each, exp.Tuple) else [each]
        if len(cells) != len(names):
            what = f"it has {len(cells)} values, and there are {len(names)} columns"
            raise _faulty(file, line, what, "give each column a value")
        pairs = [pair for pair in zip(names, cells, strict=True) if pair[0] in KNOWN]
        given = {name: _value(cell, name, file, line) for name, cell in pairs}
        yield Row(file, line, given, {name: _line(cell, line) for name, cell in pairs})


def _value(cell: Expr, name: str, file: str, line: int) -> JsonValue:
    match cell:
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(cell.this)
        case exp.Literal() if cell.is_string:
            return str(cell.this)
        case exp.Literal() if str(cell.this).isdecimal():
            return int(str(cell.this))
        case exp.RawString() | exp.National():
            return str(cell.this)
        case exp.ByteString():
            return _unescaped(str(cell.this))
        case exp.Cast() | exp.Paren():
            return _value(cell.this, name, file, line)
        case _:
            what = f"{cell.sql()[:80]} would have to be computed"
            fault = Fault(file, _line(cell, line), name, what, "write a plain value")
            raise FaultyBlueprint([fault])


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPED.get(found[1], found[1]), text, flags=re.DOTALL)


def _line(node: Expr, default: int) -> int:
    """Return the line of the first node that knows its line."""
    lines = (each.meta.get("line") for each in node.walk())
    return next((int(line) for line in lines if line), default)


def _faulty(file: str, line: int, what: str, fix: str) -> FaultyBlueprint:
    return FaultyBlueprint([Fault(file, line, "", what, fix)])
