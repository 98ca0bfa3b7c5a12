"""The files of a bundle beside sessions and blobs: the README, the verifier and the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from turnlog.projections.audit.export.bundle_format import (
    MANIFEST_FILE,
    README_FILE,
    VERIFIER_FILE,
    BundleManifest,
)

BUNDLE_FOLDER: Final = Path(__file__).parent


def get_release_name() -> str:
    """Return the name and version of this release."""
    return f"turnlog {metadata.version('turnlog-services')}"


def iterate_bundle_files(listed: BundleManifest) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file."""
    yield README_FILE, (BUNDLE_FOLDER / "stranger.md").read_bytes()
    yield VERIFIER_FILE, (BUNDLE_FOLDER / "verifier.py").read_bytes()
    yield MANIFEST_FILE, listed.encode_json()
