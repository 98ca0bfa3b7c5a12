"""Formats the Python modules that the generators write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def format_source(text: str, file: Path, fixes: str = "I") -> str:
    """Return a module's text with the rules `fixes` of ruff applied, formatted for its file."""
    ruff = Path(sys.executable).parent / "ruff"
    for command in (("check", "--select", fixes, "--fix", "--quiet"), ("format",)):
        text = subprocess.run(
            [ruff, *command, "--stdin-filename", file, "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
    return text
