"""Fails when today's contract breaks a consumer of a release; `make check` runs it.

The contract of each release is kept under `docs/reference/released`. With the name of a release it
is stored there: `python -m docs.gate.released_contracts 0.2.0`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from docs.gate.contract_breaks import find_contract_breaks

from turnlog.services.api.published_events.asyncapi_document import build_asyncapi

RELEASED = Path(__file__).parents[1] / "reference/released"


def list_breaks() -> list[str]:
    """Return what breaks a consumer of any release, each with the release."""
    current = json.loads(json.dumps(build_asyncapi()))
    return [
        f"{file.stem}: {each}"
        for file in sorted(RELEASED.glob("*.json"))
        for each in find_contract_breaks(json.loads(file.read_text()), current)
    ]


def store_release(version: str) -> None:
    """Store today's contract as that of a release."""
    RELEASED.mkdir(exist_ok=True)
    text = json.dumps(build_asyncapi(), ensure_ascii=False, separators=(",", ":"))
    (RELEASED / f"{version}.json").write_text(f"{text}\n")


if __name__ == "__main__":
    if sys.argv[1:]:
        store_release(sys.argv[1])
    elif breaks := list_breaks():
        sys.exit("\n".join(breaks))
