"""How much is tested: a part that fits into the suite, or everything with FAULTS=all."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Final, TypeVar

ALL: Final = os.environ.get("FAULTS") == "all"
ROUNDS: Final = 50 if ALL else 3
"""How often everything is killed."""

Row = TypeVar("Row")


def rows(table: Mapping[str, Row], suite: Collection[str]) -> Mapping[str, Row]:
    """Return the rows of a table to test; `suite` names those that run in the suite."""
    assert set(suite) <= table.keys(), "a row that is not there"
    return {name: row for name, row in table.items() if ALL or name in suite}
