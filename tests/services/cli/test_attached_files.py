"""Files of a turn that is only previewed."""

from __future__ import annotations

from pathlib import Path

from tests.services.media.media_samples import make_png
from turnlog.contract.session_requests import MediaPartInput
from turnlog.events.content import compute_digest
from turnlog.services.cli.client.attached_files import (
    MAX_SENT_BYTES,
    PreviewMessage,
    read_preview_message,
)


def test_file_that_does_not_fit_in_the_request_is_named_by_its_digest(tmp_path: Path) -> None:
    sizes = (MAX_SENT_BYTES - 1_000, 2_000, 1_000)
    files = [tmp_path / f"{number}.png" for number in range(len(sizes))]
    for file, size in zip(files, sizes, strict=True):
        file.write_bytes(make_png(size))
    message = read_preview_message(None, files)
    parts = [each for each in message.parts or () if isinstance(each, MediaPartInput)]
    assert [(each.name, each.data is None) for each in parts] == [
        ("0.png", False),
        ("1.png", True),
        ("2.png", False),
    ]
    assert parts[1].digest == compute_digest(files[1].read_bytes())


def test_message_without_files_is_its_text() -> None:
    assert read_preview_message("Which?", ()) == PreviewMessage(text="Which?")
    assert read_preview_message(None, ()) == PreviewMessage()
