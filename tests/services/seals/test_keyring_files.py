"""The file of a keyring: made where a data directory is to seal, and refused where it is no use."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnlog.events.errors import Refused
from turnlog.events.seals.keyrings import parse_keyring
from turnlog.services.platform.process_settings import AllInOneSettings, WorkerSettings
from turnlog.services.seals.keyring_files import (
    KEYRING_FILE,
    apply_directory_keyring,
    load_keyring,
)


def test_data_directory_gets_a_keyring_for_its_owner_when_sealing_is_on(tmp_path: Path) -> None:
    settings = AllInOneSettings(data_dir=tmp_path)
    assert apply_directory_keyring(settings, creating=True) is settings
    sealing = AllInOneSettings(data_dir=tmp_path, sealing="on")
    assert apply_directory_keyring(sealing, creating=False).keyring is None
    made = apply_directory_keyring(sealing, creating=True)
    file = tmp_path / KEYRING_FILE
    assert made.keyring == file
    assert file.stat().st_mode & 0o777 == 0o600
    assert apply_directory_keyring(sealing, creating=True) == made
    # Sealed sessions are read also where new ones are not sealed any more.
    reading = apply_directory_keyring(settings, creating=False)
    assert load_keyring(reading) == load_keyring(made) == parse_keyring(file.read_text())


def test_sealing_without_a_keyring_or_with_a_broken_one_is_refused(tmp_path: Path) -> None:
    assert load_keyring(WorkerSettings()) is None
    with pytest.raises(Refused, match="there is no keyring") as refused:
        load_keyring(WorkerSettings(sealing="on"))
    assert refused.value.field == "TURNLOG_KEYRING"
    file = tmp_path / "keyring"
    for text, reason in (
        ("", "it has no key"),
        ("1 abc", "line 1 is not a generation"),
        (f"# ours\n1 {'0' * 64}\n1 {'1' * 64}", "line 3 has a generation that an earlier line"),
    ):
        file.write_text(text)
        with pytest.raises(Refused, match=reason):
            load_keyring(WorkerSettings(keyring=file))
    with pytest.raises(Refused, match="No such file"):
        load_keyring(WorkerSettings(keyring=tmp_path / "missing"))


def test_keys_are_wrapped_under_the_newest_generation_and_apart_for_each_tenant() -> None:
    keyring = parse_keyring(f"1 {'0' * 64}\n2 {'1' * 64}\n")
    assert keyring.generation == 2
    wrapped = keyring.wrap_keys("a", 2, b"keys of a session")
    assert keyring.unwrap_keys("a", 2, wrapped) == b"keys of a session"
    assert wrapped != keyring.wrap_keys("b", 2, b"keys of a session")
    assert "1111" not in repr(keyring)
