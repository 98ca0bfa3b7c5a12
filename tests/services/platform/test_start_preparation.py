"""What a process has built before it is ready."""

from __future__ import annotations

import subprocess
import sys

FIRST_CHECK = """
import sys
from turnlog.projections.structured_output.schema_validation import find_violation
from turnlog.services.start_preparation import build_ahead

build_ahead()
before = set(sys.modules)
assert find_violation({"n": "one"}, {"properties": {"n": {"type": "integer"}}})
print(sorted(set(sys.modules) - before))
"""


def test_first_check_by_a_schema_imports_nothing_on_the_event_loop() -> None:
    command = [sys.executable, "-c", FIRST_CHECK]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
