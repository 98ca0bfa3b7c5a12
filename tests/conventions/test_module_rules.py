from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]

MEMBERS = ("events", "projections", "services", "client")

IMPURE = {"datetime.now", "datetime.utcnow", "date.today", "time.time", "uuid.uuid4", "open"}


def iterate_modules(*members: str) -> Iterator[Path]:
    for member in members:
        yield from (HOUSE / member / "src").rglob("*.py")


def is_pure(module: Path) -> bool:
    # A log has its server's clock, in memory too; a store does I/O.
    return not {"jetstream", "store"} & set(module.relative_to(HOUSE).parts)


def test_turnlog_is_a_namespace_package_without_init() -> None:
    for member in MEMBERS:
        assert not (HOUSE / member / "src/turnlog/__init__.py").exists()


@pytest.mark.promise("P20")
def test_blocking_work_runs_only_in_threads_that_no_shutdown_waits_for() -> None:
    # asyncio joins the threads of its own pool at exit; it does not join those of `run_in_thread`.
    # What the pool waits for is a process, which is killed first.
    bounded = {"concurrency.py"}
    pooled = {m.name for m in iterate_modules("services") if "to_thread(" in m.read_text()}
    assert pooled == bounded


@pytest.mark.parametrize("member", ["events", "projections"])
def test_pure_modules_use_no_clock_ids_or_files(member: str) -> None:
    impure_calls = [
        f"{module}:{call.lineno}"
        for module in iterate_modules(member)
        if is_pure(module)
        for call in ast.walk(ast.parse(module.read_bytes()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) in IMPURE
    ]
    assert impure_calls == []


def test_no_class_reads_its_source_at_definition() -> None:
    # Descriptions are read when a schema is built (`field_docstrings`): at each start it took a
    # tenth of a gateway's processor time.
    setting = re.compile(r"""use_attribute_docstrings['"]?\s*[=:\]]""")
    assert [m for m in iterate_modules(*MEMBERS) if setting.search(m.read_text())] == []
