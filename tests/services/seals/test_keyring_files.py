"""The file of a keyring: made where a data directory is to seal, and refused where it is no use."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from turnlog.events.errors import Refused
from turnlog.events.seals.keyrings import KeyringUnfit, parse_keyring
from turnlog.services.platform.nats_server import NatsConfig
from turnlog.services.platform.process_settings import AllInOneSettings, WorkerSettings
from turnlog.services.seals.keyring_files import (
    KEYRING_FILE,
    add_generation,
    apply_directory_keyring,
    load_keyring,
    lock_keyring,
    remove_generations,
)


def build_settings(data_dir: Path, sealing: Literal["on", "off"] | None) -> AllInOneSettings:
    return AllInOneSettings(data_dir=data_dir, sealing=sealing)


def create_log(data_dir: Path) -> None:
    """Make the folder that a directory has whose log has sessions, or could have."""
    (NatsConfig(data_dir=data_dir).streams_folder / "SESSIONS").mkdir(parents=True)


@pytest.mark.parametrize("sealing", ["on", None])
async def test_new_data_directory_gets_a_keyring_for_its_owner_and_seals(
    tmp_path: Path, sealing: Literal["on"] | None
) -> None:
    # What a start leaves that broke off before there was a log.
    (tmp_path / "credentials").touch()
    settings = build_settings(tmp_path, sealing)
    assert apply_directory_keyring(settings, creating=False).keyring is None
    made = apply_directory_keyring(settings, creating=True)
    file = tmp_path / KEYRING_FILE
    assert (made.keyring, made.seals_new_sessions) == (str(file), True)
    assert file.stat().st_mode & 0o777 == 0o600
    create_log(tmp_path)
    assert apply_directory_keyring(settings, creating=True) == made
    # Sealed sessions are read also where new ones are not sealed any more.
    reading = apply_directory_keyring(build_settings(tmp_path, "off"), creating=True)
    assert not reading.seals_new_sessions
    found = load_keyring(reading)
    assert found is not None
    written = parse_keyring(file.read_text())
    assert await found.unwrap_keys("a", await written.wrap_keys("a", b"keys")) == b"keys"


@pytest.mark.parametrize(
    ("sealing", "has_log", "makes"),
    [
        ("off", False, False),
        ("off", True, False),
        (None, True, False),
        ("on", True, True),
    ],
)
def test_directory_without_a_keyring_gets_one_only_where_it_is_asked_for(
    tmp_path: Path, sealing: Literal["on", "off"] | None, *, has_log: bool, makes: bool
) -> None:
    if has_log:
        create_log(tmp_path)
    settings = apply_directory_keyring(build_settings(tmp_path, sealing), creating=True)
    assert settings.seals_new_sessions is makes
    assert (tmp_path / KEYRING_FILE).exists() is makes


def test_process_of_its_own_seals_where_it_has_a_keyring_and_is_not_told_otherwise() -> None:
    assert not WorkerSettings().seals_new_sessions
    assert WorkerSettings(keyring="keyring").seals_new_sessions
    assert not WorkerSettings(keyring="keyring", sealing="off").seals_new_sessions


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
            load_keyring(WorkerSettings(keyring=str(file)))
    with pytest.raises(Refused, match="No such file"):
        load_keyring(WorkerSettings(keyring=str(tmp_path / "missing")))


async def test_file_gets_generations_and_loses_early_ones_and_keeps_its_comments(
    tmp_path: Path,
) -> None:
    file = tmp_path / "keyring"
    file.write_text(f"# ours\n1 {'0' * 64}\n3 {'2' * 64}\n\n7 {'1' * 64}")
    before = parse_keyring(file.read_text()).keys
    with lock_keyring(file) as keyring:
        assert add_generation(file) == 8
        with pytest.raises(Refused, match="another command is changing"), lock_keyring(file):
            pass
        assert keyring.keys == before
    assert file.stat().st_mode & 0o777 == 0o600
    remove_generations(file, 3)
    after = parse_keyring(file.read_text()).keys
    assert (sorted(after), after[7]) == ([7, 8], before[7])
    assert file.read_text().startswith("# ours\n\n7 ")
    assert len({*after.values()}) == 2


async def test_keys_are_wrapped_under_the_newest_generation_and_apart_for_each_tenant() -> None:
    keyring = parse_keyring(f"1 {'0' * 64}\n2 {'1' * 64}\n")
    assert await keyring.find_generation() == 2
    wrapped = await keyring.wrap_keys("a", b"keys of a session")
    assert wrapped.generation == 2
    assert await keyring.unwrap_keys("a", wrapped) == b"keys of a session"
    assert wrapped != await keyring.wrap_keys("b", b"keys of a session")
    with pytest.raises(KeyringUnfit):
        await keyring.unwrap_keys("b", wrapped)
    assert "1111" not in repr(keyring)
