"""What the processes of the suite are forked from hides no fault of a test module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from tests.support.processes.forked_workers import import_tests
import_tests(sys.argv[1:])
print([name for name, found in sys.modules.items() if getattr(found, "__file__", "") in sys.argv])
"""


def test_module_that_cannot_be_imported_is_imported_anew_by_each_fork(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = --import-mode=importlib\npythonpath = .\n"
    )
    folder = tmp_path / "checks"
    folder.mkdir()
    broken, sound = folder / "test_broken.py", folder / "test_sound.py"
    sound.write_text("def test_it() -> None: ...\n")
    broken.write_text("def test_it() -> None: ...\n\n\nNUMBER = 1 / 0\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(broken), str(sound)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "test_sound" in done.stdout
    assert "test_broken" not in done.stdout
