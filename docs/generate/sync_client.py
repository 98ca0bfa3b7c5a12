"""Writes the blocking client from the asynchronous one, so that the two cannot differ.

`make docs` runs it, and a test fails when the committed file differs from its output.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "client/src/turnlog/client"
TARGET = PACKAGE / "sync_client.py"

DOCSTRING = '''"""The blocking client of a service, written from `async_client` by `make docs`."""
'''

REPLACEMENTS = (
    (r"\bawait ", ""),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bAsync(TurnlogClient|SessionClient)\b", r"\1"),
    (r"\bhttpx\.AsyncClient\b", "httpx.Client"),
    (r"\bAsyncGenerator\[", "Generator["),
    (r"\bimport AsyncGenerator, Mapping", "import Generator, Mapping"),
    (r"\baclosing, asynccontextmanager\b", "closing, contextmanager"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\baclosing\b", "closing"),
    (r"\baclose\b", "close"),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\ba(read|iter_bytes)\(", r"\1("),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"^import asyncio\n", ""),
)


def build_sync_client() -> str:
    """Return the text of the blocking client."""
    text = (PACKAGE / "async_client.py").read_text()
    _, _, body = text.partition('"""\n\nfrom __future__')
    body = f"{DOCSTRING}\nfrom __future__{body}"
    for pattern, replacement in REPLACEMENTS:
        body = re.sub(pattern, replacement, body, flags=re.MULTILINE)
    ruff = Path(sys.executable).parent / "ruff"
    formatted = subprocess.run(
        [ruff, "format", "--stdin-filename", TARGET, "-"],
        input=body,
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return formatted.stdout


if __name__ == "__main__":
    TARGET.write_text(build_sync_client())
    print(TARGET)
