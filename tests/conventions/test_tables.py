"""Tables over a literal type have an entry for each of its values."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import turnlog.events
import turnlog.projections
import turnlog.services
import turnlog.services.gateway
from turnlog.projections.audit.diff.diff_reasons import DiffReason

TABLE_TYPE = re.compile(r"(?:Final\[)?(?:dict|Mapping)\[(\w+), .*\]")


def list_modules() -> Iterator[str]:
    for package in (turnlog.events, turnlog.projections, turnlog.services):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(("__main__", "migrations.env")):
                yield module.name


def find_tables(name: str) -> Iterator[tuple[str, Mapping[Any, object], tuple[object, ...]]]:
    """Yield the tables of a module whose keys are literals, each with all the literals."""
    module = importlib.import_module(name)
    for table, written in vars(module).get("__annotations__", {}).items():
        if found := TABLE_TYPE.fullmatch(str(written)):
            key = vars(module).get(found[1])
            if get_origin(key) is Literal:
                yield f"{name}.{table}", getattr(module, table), get_args(key)


def test_tables_over_literal_types_are_complete() -> None:
    found = [table for module in list_modules() for table in find_tables(module)]
    assert found
    for table, entries, values in found:
        assert set(entries) == set(values), table


def test_page_has_a_text_for_each_diff_reason() -> None:
    script = (
        Path(turnlog.services.gateway.__path__[0]) / "static" / "audit" / "diff_view.js"
    ).read_text()
    (table,) = re.findall(r"CAUSE_TEXTS = \{(.*?)\}", script, re.DOTALL)
    assert set(re.findall(r"(\w+): \"", table)) == set(get_args(DiffReason))
