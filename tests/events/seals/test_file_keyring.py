"""A keyring in a file: a running process finds what is added to it, and forgets what is removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnlog.events.seals.file_keyring import FileKeyring
from turnlog.events.seals.keyrings import KeyringUnfit

FIRST, SECOND = f"1 {'a' * 64}\n", f"2 {'b' * 64}\n"


def replace_file(file: Path, text: str) -> None:
    """Write a file in place of another one, as everything does that writes files whole."""
    beside = file.with_name("beside")
    beside.write_text(text)
    beside.replace(file)


async def test_generation_that_is_added_wraps_and_opens_without_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "keyring"
    file.write_text(FIRST)
    early = FileKeyring.open(file)
    before = await early.wrap_keys("a", b"first")
    replace_file(file, FIRST + SECOND)
    elsewhere = await FileKeyring.open(file).wrap_keys("a", b"second")
    assert elsewhere.generation == await early.find_generation() == 2
    assert await early.unwrap_keys("a", elsewhere) == b"second"
    assert await early.unwrap_keys("a", before) == b"first"
    assert (await early.wrap_keys("a", b"third")).generation == 2


async def test_generation_that_is_removed_opens_nothing_more(tmp_path: Path) -> None:
    file = tmp_path / "keyring"
    file.write_text(FIRST)
    keyring = FileKeyring.open(file)
    before = await keyring.wrap_keys("a", b"first")
    replace_file(file, SECOND)
    with pytest.raises(KeyringUnfit, match="it has no generation 1"):
        await keyring.unwrap_keys("a", before)
    # As long as the file with it comes back, nothing is lost.
    replace_file(file, FIRST + SECOND)
    assert await keyring.unwrap_keys("a", before) == b"first"


@pytest.mark.parametrize("change", ["missing", "half written"])
async def test_file_that_is_no_keyring_leaves_the_last_one_in_use(
    tmp_path: Path, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keyring"
    file.write_text(FIRST)
    keyring = FileKeyring.open(file)
    before = await keyring.wrap_keys("a", b"first")
    if change == "missing":
        file.unlink()
    else:
        file.write_text(FIRST + SECOND[:40])
    for _ in range(2):
        assert await keyring.unwrap_keys("a", before) == b"first"
    (record,) = caplog.records
    assert record.getMessage().startswith(f"keyring-unusable: {file}: ")
    replace_file(file, FIRST + SECOND)
    assert await keyring.find_generation() == 2
