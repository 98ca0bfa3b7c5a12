"""Writes what the web page says of the code of a failure: what happened, and what to do about it.

`make docs` runs it, and a test fails when the committed file differs from its output.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

from turnlog.services.api.published_errors.session_codes import SESSION_CODES
from turnlog.services.api.published_errors.turn_failures import TURN_FAILURES

PAGE_FOLDER = Path(str(resources.files("turnlog.services.gateway"))) / "static"
TARGET = PAGE_FOLDER / "turn" / "failure_catalogue.js"
HEAD = """\
// What happened and what to do about it, by the code of a failure. `make docs` writes this file
// from services/api/published_errors; do not edit it.

"""


def build_failure_catalogue() -> str:
    """Return the whole JavaScript file; a refused call fails with the code of its refusal."""
    texts = {code: (each.meaning, each.action) for code, each in TURN_FAILURES.items()}
    refusals = {code: (each.meaning, each.action) for code, each in SESSION_CODES.items()}
    lines = "".join(
        f"  {json.dumps(code)}: {json.dumps(text, ensure_ascii=False)},\n"
        for code, text in sorted({**refusals, **texts}.items())
    )
    return f"{HEAD}export const FAILURE_TEXTS = {{\n{lines}}};\n"


if __name__ == "__main__":
    TARGET.write_text(build_failure_catalogue())
