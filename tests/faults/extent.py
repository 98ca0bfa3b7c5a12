"""How much is tried: what fits into the suite, or with FAULTS=all everything there is."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Final, TypeVar

ALL: Final = os.environ.get("FAULTS") == "all"
ROUNDS: Final = 50 if ALL else 3
"""How often everything is killed."""

Row = TypeVar("Row")


def rows(table: Mapping[str, Row], suite: Collection[str]) -> Mapping[str, Row]:
    """Give the rows of a table to try; `suite` names those that are tried in the suite."""
    assert set(suite) <= table.keys(), "a row that is not there"
    return {name: row for name, row in table.items() if ALL or name in suite}
