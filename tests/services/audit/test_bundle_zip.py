"""The zip of a bundle: packed from a folder, and unpacked with its manifest."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from turnlog.events.errors import Corrupt
from turnlog.projections.audit.export.bundle_format import MANIFEST_FILE, BundleManifest
from turnlog.services.bundle.bundle_unpacking import SPARE_BYTES, unpack_bundle
from turnlog.services.bundle.bundle_zip import pack_bundle

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


def test_zip_of_nothing_but_zeros_is_not_unpacked(tmp_path: Path) -> None:
    blob = f"blobs/sha256-{'0' * 64}"
    with ZipFile(tmp_path / "bomb.zip", "w", ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST_FILE, MANIFEST.encode_json())
        with archive.open(blob, "w") as file:
            for _ in range(100):
                file.write(bytes(1_000_000))
    with pytest.raises(Corrupt, match="more than 200 times the size of its zip"):
        unpack_bundle(tmp_path / "bomb.zip", tmp_path / "folder")
    assert (tmp_path / "folder" / blob).stat().st_size < 3 * SPARE_BYTES


def test_only_files_of_the_format_are_unpacked(tmp_path: Path) -> None:
    outside = ("../outside", "/etc/outside", "sessions/../../outside", "blobs/sha256-0", "x/y")
    with ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr(MANIFEST_FILE, MANIFEST.encode_json())
        for name in outside:
            archive.writestr(name, "written")
    unpack_bundle(tmp_path / "bad.zip", tmp_path / "in" / "folder")
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert {each.name for each in files} == {"bad.zip", MANIFEST_FILE}


@pytest.mark.parametrize(
    ("flag", "method", "message"),
    [(1, 0, "manifest.json is encrypted"), (0, 99, "compressed in an unknown way")],
)
def test_unpacking_rejects_what_cannot_be_read_with_reason(
    tmp_path: Path, flag: int, method: int, message: str
) -> None:
    with ZipFile(tmp_path / "bad.zip", "w") as archive:
        archive.writestr(MANIFEST_FILE, MANIFEST.encode_json())
    stored = bytearray((tmp_path / "bad.zip").read_bytes())
    listed = stored.index(b"PK\x01\x02")  # The directory's entry has both at 8 and 10.
    stored[listed + 8], stored[listed + 10] = flag, method
    (tmp_path / "bad.zip").write_bytes(stored)
    with pytest.raises(Corrupt, match=message):
        unpack_bundle(tmp_path / "bad.zip", tmp_path / "folder")


@pytest.mark.slow("many generated cases are tried")
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_damage_of_a_zip_is_unpacked_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    whole = tmp_path / "whole.zip"
    if not whole.exists():
        pack_bundle(write_folder(tmp_path / "made"), whole)
    stored = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "bad.zip").write_bytes(stored[: data.draw(st.integers(0, len(stored)))])
    with suppress(Corrupt):
        unpack_bundle(tmp_path / "bad.zip", tmp_path / "folder")
