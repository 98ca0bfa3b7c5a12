"""Writes the blocking client from the asynchronous one, so that the two cannot differ.

`make docs` runs it, and a test fails when the committed file differs from its output.
"""

from __future__ import annotations

import re
from pathlib import Path

from docs.generate.support.source_format import format_source

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "client/src/turnlog/client"
DOCSTRINGS = {
    "client": "The blocking client of a service, written from `async_client` by `make docs`.",
    "connection": "The blocking connection, written from `async_connection` by `make docs`.",
    "tenant_requests": "Requests about no session, written from `async_tenant_requests`.",
    "session_requests": "The requests of a session client, written from `async_session_requests`.",
}
"""The docstring of each blocking module, by what its name has after `sync_`."""

REPLACEMENTS = (
    (r"\bawait ", ""),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bAsync(TurnlogClient|SessionClient|ServiceConnection)\b", r"\1"),
    (r"\bAsync(SessionRequests|TenantRequests)\b", r"\1"),
    (r"\basync_(connection|session_requests|tenant_requests)\b", r"sync_\1"),
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


def get_target(name: str) -> Path:
    """Return the file of a blocking module."""
    return PACKAGE / f"sync_{name}.py"


def build_sync_module(name: str) -> str:
    """Return the text of a blocking module."""
    text = (PACKAGE / f"async_{name}.py").read_text()
    _, _, body = text.partition('"""\n\nfrom __future__')
    for pattern, replacement in REPLACEMENTS:
        body = re.sub(pattern, replacement, body, flags=re.MULTILINE)
    return format_source(f'"""{DOCSTRINGS[name]}"""\n\nfrom __future__{body}', get_target(name))


if __name__ == "__main__":
    for name in DOCSTRINGS:
        get_target(name).write_text(build_sync_module(name))
        print(get_target(name))
