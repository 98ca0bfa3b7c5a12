from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_command_line_reference_is_up_to_date() -> None:
    generator = runpy.run_path(str(DOCS / "generate" / "command_line.py"))
    written = (DOCS / "reference" / "command-line.md").read_text()
    assert generator["reference"]() == written, "it is stale: run `make docs`"
