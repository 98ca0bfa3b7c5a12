"""What a bundle has beside sessions and blobs: a list, a page for the stranger, the verifier."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from turnlog.projections.audit.bundle import LISTED, READ_FIRST, VERIFIER, BundleList

HERE: Final = Path(__file__).parent


def maker() -> str:
    """Name this release."""
    return f"turnlog {metadata.version('turnlog-services')}"


def around(listed: BundleList) -> Iterator[tuple[str, bytes]]:
    """Give the files by name."""
    yield READ_FIRST, (HERE / "stranger.md").read_bytes()
    yield VERIFIER, (HERE / "verifier.py").read_bytes()
    yield LISTED, listed.written()
