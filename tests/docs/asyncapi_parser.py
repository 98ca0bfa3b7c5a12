"""The official parser of AsyncAPI documents, which is written for node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.docs.doc_pages import ROOT

TOOLS: Final = ROOT / ".venv/contracts"
"""Where the parser and the compilers of `tests/docs/contracts` are installed."""

NODE: Final = shutil.which("node")

needs_tools: Final = pytest.mark.skipif(
    NODE is None or not (TOOLS / "node_modules/@asyncapi/parser").exists(),
    reason="npm could not install the tools: `make .venv/contracts/installed`",
)


def parse_document(file: Path) -> dict[str, Any]:
    """Return the faults of a document, and how many channels and messages it has."""
    assert NODE
    script = Path(__file__).parent / "contracts/parse_asyncapi.mjs"
    run = subprocess.run(
        [NODE, script, TOOLS, file], capture_output=True, text=True, check=True, timeout=120
    )
    return dict(json.loads(run.stdout))
