"""Unpacks the zip of a bundle that a stranger may have made.

Only the files of the format are unpacked, under their own names, so nothing is written outside the
folder. What they hold is bounded by the size of the zip, whatever its directory says: a zip of half
a megabyte can name half a gigabyte of zeros.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from pydantic import ValidationError

from turnlog.events.errors import Corrupt
from turnlog.projections.audit.export.bundle_format import (
    BUNDLE_FILE_FORM,
    MANIFEST_FILE,
    BundleManifest,
)

MAX_EXPANSION: Final = 200
"""Bytes to which a byte of a zip may be unpacked; events and prompts are at about ten."""

SPARE_BYTES: Final = 16 * 1024 * 1024
"""Bytes to which any zip may be unpacked, however small it is."""

_FLAG_ENCRYPTED: Final = 1

_CHUNK_BYTES: Final = 256 * 1024


def unpack_bundle(packed: Path, folder: Path) -> BundleManifest:
    """Unpack a zip into a folder and return its manifest.

    Raises `Corrupt` for a file that is no zip of a bundle, or holds too much.
    """
    try:
        with ZipFile(packed) as archive:
            _extract_files(archive, folder, packed.stat().st_size * MAX_EXPANSION + SPARE_BYTES)
        return BundleManifest.model_validate_json((folder / MANIFEST_FILE).read_bytes())
    except (BadZipFile, EOFError, zlib.error) as error:
        raise Corrupt("the bundle", f"it is not a zip: {error}") from None
    except FileNotFoundError:
        raise Corrupt("the bundle", f"it has no {MANIFEST_FILE}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise Corrupt("the bundle", f"{MANIFEST_FILE}: {first['msg']}") from None


def _extract_files(archive: ZipFile, folder: Path, left: int) -> None:
    """Extract the files of a bundle, of at most `left` bytes together."""
    for entry in archive.infolist():
        if not BUNDLE_FILE_FORM.fullmatch(entry.filename):
            continue
        if entry.flag_bits & _FLAG_ENCRYPTED:
            raise Corrupt("the bundle", f"{entry.filename} is encrypted")
        if entry.compress_type not in {ZIP_STORED, ZIP_DEFLATED}:
            raise Corrupt("the bundle", f"{entry.filename} is compressed in an unknown way")
        left -= _extract_file(archive, entry, folder, left)


def _extract_file(archive: ZipFile, entry: ZipInfo, folder: Path, left: int) -> int:
    """Extract a file and return its size; its directory entry is not believed."""
    path = folder / entry.filename
    path.parent.mkdir(parents=True, exist_ok=True)
    size = 0
    with archive.open(entry) as source, path.open("wb") as target:
        while piece := source.read(_CHUNK_BYTES):
            size += len(piece)
            if size > left:
                detail = f"it unpacks to more than {MAX_EXPANSION} times the size of its zip"
                raise Corrupt("the bundle", detail)
            target.write(piece)
    return size
