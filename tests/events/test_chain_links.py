"""What stored bytes say of their place is read without decoding them, and is what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.events.golden_bytes import GOLDEN
from turnlog.events.chain_link import ENVELOPE_START, get_chain_header, parse_chain_header
from turnlog.events.codec import decode_event
from turnlog.events.errors import Corrupt

SAID = (
    b'{"specversion":"1.0","id":"a","source":"b","type":"c","subject":"%s","time":"d","tenant":"t"'
)

HEAD = SAID + b',"sequence":%s,"actor":"e","data":{}}'

golden = pytest.mark.parametrize("path", sorted(GOLDEN.iterdir()), ids=lambda path: path.name)


@golden
def test_chain_header_is_read_without_decoding_and_equals_that_of_the_event(
    path: Path,
) -> None:
    stored = path.read_bytes()
    assert ENVELOPE_START.match(stored)
    assert parse_chain_header(stored) == get_chain_header(decode_event(stored, 1).envelope)
    spaced = stored.replace(b'{"specversion":', b'{ "specversion":', 1)
    assert not ENVELOPE_START.match(spaced)
    assert parse_chain_header(spaced) == get_chain_header(decode_event(spaced, 1).envelope)


@pytest.mark.parametrize(
    "stored",
    [
        HEAD % (b"\xff", b"1"),
        HEAD % (b"\\ud800", b"1"),
        HEAD % (b"s", b"9" * 21),
        HEAD % (b"s", b"9" * 4_300),
        HEAD % (b"s", b"9" * 5_000),
        HEAD % (b"s", b"1e400"),
        b"[" * 100_000,
        b"\xff",
        b"",
    ],
    ids=lambda stored: repr(stored[:120]),
)
def test_bytes_that_are_no_event_have_no_chain_header(stored: bytes) -> None:
    assert parse_chain_header(stored) is None
    with pytest.raises(Corrupt):
        decode_event(stored, 1)
