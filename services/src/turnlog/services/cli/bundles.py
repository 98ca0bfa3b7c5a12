from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

from turnlog.events.errors import Refused
from turnlog.projections.audit.bundle import MANIFEST_FILE
from turnlog.services.bundle import verifier


def verify_bundle(bundle: Path, signer: str | None) -> bool:
    """Check a bundle and print the result line by line; return whether it is sound."""
    with _unpack_bundle(bundle) as folder:
        if not (folder / MANIFEST_FILE).is_file():
            raise _build_refusal(bundle, f"there is no {MANIFEST_FILE} in it")
        return verifier.main(folder, (f"--key={signer}",) if signer else ()) == 0


@contextmanager
def _unpack_bundle(bundle: Path) -> Generator[Path]:
    if bundle.is_dir():
        yield bundle
        return
    with TemporaryDirectory(prefix="turnlog-bundle-") as place:
        try:
            with ZipFile(bundle) as archive:
                archive.extractall(place)
        except BadZipFile:
            raise _build_refusal(bundle, "it is neither a folder nor a zip") from None
        yield Path(place)


def _build_refusal(bundle: Path, why: str) -> Refused:
    fix = "name what `turnlog export --bundle` made"
    return Refused("invalid", f"{bundle} is no bundle: {why}", field="--bundle", fix=fix)
