"""How much is tested: a part that fits into the suite, or everything with FAULTS=all."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Final, TypeVar

import pytest

RUN_EVERYTHING: Final = os.environ.get("FAULTS") == "all"

KILL_ROUNDS: Final = 50 if RUN_EVERYTHING else 1
"""How often everything is killed."""

whole_programme: Final = pytest.mark.skipif(
    not RUN_EVERYTHING, reason="takes minutes: `make test-long` runs it"
)
"""The mark of a test that does not run in the suite."""

RowT = TypeVar("RowT")


def choose_examples(suite: int) -> int:
    """Return how many examples a property is tested with; `suite` of them in the suite."""
    return 20 * suite if RUN_EVERYTHING else suite


def select_rows(table: Mapping[str, RowT], suite: Collection[str]) -> Mapping[str, RowT]:
    """Return the rows of a table to test; `suite` names those that run in the suite."""
    assert set(suite) <= table.keys(), "a row that is not there"
    return {name: row for name, row in table.items() if RUN_EVERYTHING or name in suite}
