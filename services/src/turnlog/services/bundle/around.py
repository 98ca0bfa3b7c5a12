"""The files of a bundle beside sessions and blobs: the README, the verifier and the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from turnlog.projections.audit.bundle import LISTED, READ_FIRST, VERIFIER, BundleList

HERE: Final = Path(__file__).parent


def maker() -> str:
    """Return the name and version of this release."""
    return f"turnlog {metadata.version('turnlog-services')}"


def around(listed: BundleList) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file."""
    yield READ_FIRST, (HERE / "stranger.md").read_bytes()
    yield VERIFIER, (HERE / "verifier.py").read_bytes()
    yield LISTED, listed.written()
