"""Every column of the read models has a reader; one without is written and stored for nothing.

A reader is an expression that names the column of its table (in a result, a filter, a join or an
order), a field of the type that a query selects columns for, or, where a query selects whole rows,
an attribute of that name in its module.
"""

from __future__ import annotations

import ast
import importlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final, TypeGuard

from sqlalchemy import Table

from tests.conventions.source_tree import (
    ROOT,
    FunctionNode,
    load_modules,
    parse_module,
)
from turnlog.projections.store.growth.call_sums import CALL_SUMS
from turnlog.projections.store.schema import read_model_tables
from turnlog.projections.store.schema.hour_tables import (
    CHANGED_HOURS,
    HOUR_DIMENSIONS,
    HOUR_TABLES,
)

STORE: Final = "turnlog.projections.store"

SHAPES: Final = f"{STORE}.read.row_types"

TableNames = Mapping[str, str]
"""The names of tables by the variables that stand for one, or for its columns."""

TABLES: Final[TableNames] = {
    name: value.name for name, value in vars(read_model_tables).items() if isinstance(value, Table)
}


def list_store_modules() -> list[str]:
    """Return the modules that query tables."""
    schema = read_model_tables.__name__
    return [each for each in load_modules() if each.startswith(STORE) and each != schema]


def iterate_scopes(module: str) -> Iterator[tuple[ast.AST, TableNames]]:
    """Yield each function of a module and the rest of it, with the tables that it names."""
    body = parse_module(module).body
    shared = {**TABLES, **find_assigned_tables(body, TABLES)}
    for statement in body:
        functions = [each for each in ast.walk(statement) if isinstance(each, FunctionNode)]
        for function in functions:
            yield function, {**shared, **find_assigned_tables(function.body, shared)}
        if not functions:
            yield statement, shared


def find_assigned_tables(body: list[ast.stmt], known: TableNames) -> dict[str, str]:
    """Return the tables that are assigned to variables, as `rows, spent = TURNS.c, ATTEMPTS.c`."""
    found: dict[str, str] = {}
    for statement in body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            pairs = [(target, statement.value)]
            if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
                pairs = list(zip(target.elts, statement.value.elts, strict=True))
            for name, value in pairs:
                table = resolve_table(value, known)
                if isinstance(name, ast.Name) and table is not None:
                    found[name.id] = table
    return found


def resolve_table(node: ast.expr, names: TableNames) -> str | None:
    """Return the table that an expression stands for, itself, by an alias or by its columns."""
    match node:
        case ast.Name(id=name):
            return names.get(name)
        case (
            ast.Attribute(value=inner, attr="c")
            | ast.Call(func=ast.Attribute(value=inner, attr="alias"))
        ):
            return resolve_table(inner, names)
        case _:
            return None


def find_read_columns(module: str) -> set[tuple[str, str]]:
    """Return the columns that a module reads, each as table and name."""
    read: set[tuple[str, str]] = set()
    whole: set[str] = set()
    for scope, names in iterate_scopes(module):
        for node in ast.walk(scope):
            match node:
                case ast.Attribute(value=value, attr=name) if table := resolve_table(value, names):
                    read.add((table, name))
                case ast.Call(func=ast.Name(id="select_columns"), args=[value, ast.Name(id=shape)]):
                    if (table := resolve_table(value, names)) is not None:
                        columns = vars(importlib.import_module(SHAPES))[shape]
                        read |= {(table, each.name) for each in fields(columns)}
                case ast.Call(func=ast.Name(id="select"), args=selected):
                    whole |= {names.get(each.id, "") for each in selected if is_name(each)}
                case _:
                    pass
    attributes = find_attributes(module)
    return read | {(table, name) for table in whole for name in attributes}


def is_name(node: ast.expr) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name)


def find_attributes(module: str) -> set[str]:
    """Return the names of all attributes that a module reads."""
    tree = ast.walk(parse_module(module))
    return {node.attr for node in tree if isinstance(node, ast.Attribute)}


def test_every_column_of_the_read_models_is_read() -> None:
    read = {column for module in list_store_modules() for column in find_read_columns(module)}
    columns = {
        (table.name, column.name)
        for table in read_model_tables.METADATA.sorted_tables
        if table not in HOUR_TABLES
        for column in table.c
        if not column.primary_key
    }
    assert sorted(columns - read) == []


def test_every_column_of_a_sum_by_the_hour_is_one_of_the_sum() -> None:
    """A sum names its columns as data, so no expression does."""
    for each in CALL_SUMS:
        columns = {column.name for column in each.hours.c}
        assert columns == {"build", "tenant", "hour", *HOUR_DIMENSIONS, *each.labels, *each.figures}
    assert {each.hours for each in CALL_SUMS} == {*HOUR_TABLES} - {CHANGED_HOURS}


def test_every_field_that_a_query_selects_is_in_an_answer_or_read_by_a_caller() -> None:
    answers = json.loads((ROOT / "docs/reference/openapi.json").read_text())["components"][
        "schemas"
    ]
    shapes = {
        node.args[1].id
        for module in list_store_modules()
        for node in ast.walk(parse_module(module))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "select_columns"
        and isinstance(node.args[1], ast.Name)
    }
    assert shapes
    readers = {
        attribute
        for module, path in load_modules().items()
        if not module.startswith(STORE) and SHAPES in path.read_text()
        for attribute in find_attributes(module)
    }
    for shape in shapes:
        names = {each.name for each in fields(vars(importlib.import_module(SHAPES))[shape])}
        is_published = any(names <= each.get("properties", {}).keys() for each in answers.values())
        assert is_published or names <= readers, shape
