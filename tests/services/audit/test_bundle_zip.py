"""The zip of a bundle: packed from a folder, and unpacked with its manifest."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from turnlog.events.errors import Corrupt
from turnlog.projections.audit.export.bundle_format import MANIFEST_FILE, BundleManifest
from turnlog.services.bundle.bundle_zip import pack_bundle, unpack_bundle

MANIFEST = BundleManifest(
    made_at="2026-01-01T00:00:00Z", made_by="turnlog 0", tenant="t", sessions=(), blobs=()
)


def write_folder(folder: Path) -> Path:
    (folder / "sessions").mkdir(parents=True)
    (folder / "sessions" / "one.ndjson").write_bytes(b"{}\n")
    (folder / MANIFEST_FILE).write_bytes(MANIFEST.encode_json())
    return folder


def test_packed_bundle_unpacks_to_the_same_files(tmp_path: Path) -> None:
    pack_bundle(write_folder(tmp_path / "made"), tmp_path / "made.zip")
    assert unpack_bundle(tmp_path / "made.zip", tmp_path / "again") == MANIFEST
    assert (tmp_path / "again" / "sessions" / "one.ndjson").read_bytes() == b"{}\n"


def test_packing_the_same_files_gives_identical_zips(tmp_path: Path) -> None:
    for name in ("one", "two"):
        pack_bundle(write_folder(tmp_path / name), tmp_path / f"{name}.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "the bundle: it has no manifest.json"),
        (b"{}", "the bundle: manifest.json: Field required"),
        (b"[" * 100_000, "the bundle: manifest.json: Invalid JSON"),
    ],
)
def test_unpacking_rejects_missing_or_invalid_manifest_with_reason(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    with ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr("README.md", "")
        if content is not None:
            archive.writestr(MANIFEST_FILE, content)
    with pytest.raises(Corrupt, match=message):
        unpack_bundle(tmp_path / "bad.zip", tmp_path / "folder")


def test_unpacking_rejects_file_that_is_not_a_zip(tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_text("<html>")
    with pytest.raises(Corrupt, match="it is not a zip"):
        unpack_bundle(tmp_path / "bad.zip", tmp_path / "folder")
