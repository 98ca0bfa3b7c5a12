"""Segments from an SQL dump: the INSERT statements are parsed and never run.

sqlglot parses the text. Other statements are skipped, and a value that would have to be computed is
a fault. A dump has all columns of its table; those that segments do not have are dropped, as long
as `scope` and `content` are present. sqlglot is an optional dependency, the extra `sql`, so only
the import of a dump imports this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue
from sqlglot import Dialect, exp
from sqlglot.errors import SqlglotError
from sqlglot.expressions.core import Expr
from sqlglot.tokenizer_core import Token, TokenType

from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    FaultyBlueprint,
)
from turnlog.services.cli.segments.import_rows import DIGITS, KNOWN_FIELDS, ImportedSegmentRow

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# sqlglot does not type the contents of its nodes; what is read from them is checked here.


_COPY_STATEMENT: Final = re.compile(r"^COPY\s.*\sFROM\s+stdin", re.IGNORECASE | re.MULTILINE)

_MYSQL_INSERT: Final = re.compile(r"^INSERT\s+INTO\s+`", re.IGNORECASE | re.MULTILINE)
"""How a MySQL dump begins its rows; no other dump does."""

_SQL_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def read_sql_rows(text: str, file: str) -> Iterator[ImportedSegmentRow]:
    """Yield the rows of a dump; raises `FaultyBlueprint` if it cannot be read."""
    if copied := _COPY_STATEMENT.search(text):
        line = text.count("\n", 0, copied.start()) + 1
        fix = "dump with INSERT statements: `pg_dump --column-inserts`"
        raise _build_faulty_file(file, line, "COPY is not read", fix)
    dialect = Dialect.get_or_raise("mysql" if _MYSQL_INSERT.search(text) else "postgres")
    known: dict[str, list[str]] = {}
    try:
        for tokens in _split_statements(dialect.tokenize(text)):
            for statement in dialect.parser().parse(tokens, text):
                if isinstance(statement, exp.Create):
                    known |= _read_columns(statement)
                elif isinstance(statement, exp.Insert):
                    yield from _read_insert_rows(statement, known, file, tokens[0].line)
    except SqlglotError as error:
        first = getattr(error, "errors", None) or [{}]
        what = str(first[0].get("description") or "it cannot be read as SQL")
        raise _build_faulty_file(
            file, int(first[0].get("line") or 1), what, "mend the SQL"
        ) from None


def _split_statements(tokens: Sequence[Token]) -> Iterator[list[Token]]:
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


def _read_columns(created: exp.Create) -> Mapping[str, list[str]]:
    schema = created.this
    if not isinstance(schema, exp.Schema):
        return {}
    names = [each.name.lower() for each in schema.expressions if isinstance(each, exp.ColumnDef)]
    return {schema.this.name.lower(): names}


def _read_insert_rows(
    insert: exp.Insert, known: Mapping[str, list[str]], file: str, line: int
) -> Iterator[ImportedSegmentRow]:
    into = insert.this
    if isinstance(into, exp.Schema):
        names = [each.name.lower() for each in into.expressions]
    else:
        names = known.get(into.name.lower(), [])
    if not names:
        fix = "name them: INSERT INTO prompt_segments (id, scope, ...)"
        raise _build_faulty_file(file, line, "the columns of these values are unknown", fix)
    if not {"scope", "content"} <= set(names):
        return
    values = insert.expression
    if not isinstance(values, exp.Values):
        raise _build_faulty_file(
            file, line, "the rows would have to be computed", "write VALUES (...)"
        )
    for each in values.expressions:
        line = _find_line(each, line)
        cells = each.expressions if isinstance(each, exp.Tuple) else [each]
        if len(cells) != len(names):
            what = f"it has {len(cells)} values, and there are {len(names)} columns"
            raise _build_faulty_file(file, line, what, "give each column a value")
        pairs = [pair for pair in zip(names, cells, strict=True) if pair[0] in KNOWN_FIELDS]
        row_values = {name: _read_value(cell, name, file, line) for name, cell in pairs}
        yield ImportedSegmentRow(
            file, line, row_values, {name: _find_line(cell, line) for name, cell in pairs}
        )


def _read_value(cell: Expr, name: str, file: str, line: int) -> JsonValue:
    match cell:
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(cell.this)
        case exp.Literal() if cell.is_string:
            return str(cell.this)
        case exp.Literal() if DIGITS.fullmatch(str(cell.this)):
            return int(str(cell.this))
        case exp.RawString() | exp.National():
            return str(cell.this)
        case exp.ByteString():
            return _decode_escapes(str(cell.this))
        case exp.Cast() | exp.Paren():
            return _read_value(cell.this, name, file, line)
        case _:
            what = f"{cell.sql()[:80]} would have to be computed"
            fault = BlueprintFault(
                file=file,
                line=_find_line(cell, line),
                path=name,
                what=what,
                fix="write a plain value",
            )
            raise FaultyBlueprint([fault])


def _decode_escapes(text: str) -> str:
    return re.sub(
        r"\\(.)", lambda found: _SQL_ESCAPES.get(found[1], found[1]), text, flags=re.DOTALL
    )


def _find_line(node: Expr, default: int) -> int:
    """Return the line of the first node that knows its line."""
    lines = (each.meta.get("line") for each in node.walk())
    return next((int(line) for line in lines if line), default)


def _build_faulty_file(file: str, line: int, what: str, fix: str) -> FaultyBlueprint:
    return FaultyBlueprint([BlueprintFault(file=file, line=line, path="", what=what, fix=fix)])
