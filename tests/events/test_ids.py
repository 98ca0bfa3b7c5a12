from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.events.codec import encode_batch
from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.events.ids import validate_id
from turnlog.events.model.turn_events import TurnReleased
from turnlog.events.subjects import (
    LIBRARY_HISTORY,
    SESSION_HISTORY,
    build_blob_subject,
    build_media_subject,
    build_snapshot_subject,
    build_token_subject,
)
from turnlog.events.testing import make_draft

FINE = re.compile(r"[A-Za-z0-9_-]{1,64}")
BAD = [
    "",
    "a" * 65,
    *("a.b", ".", "..", "a*", "*", ">", "a>b", "$SYS", "a$", "a b", " a", "a ", "\t"),
    *(
        "a\r",
        "a\n",
        "a\r\nPUB x 0",
        "\x00",
        "a\x00b",
        "\u200b",
        "\u0430",
        "\uff41",
        "é",
        "名",
        "🙂",
        "\ud800",
    ),
    *("a/b", "a\\b", "a:b", "a%2eb", "a,b", "a'b", 'a"b'),
]
BUILDERS: dict[str, Callable[[str], object]] = {
    "tenant of a stream": SESSION_HISTORY.find_stream,
    "tenant of an event": lambda bad: SESSION_HISTORY.build_subject(bad, "s", "turn"),
    "session of an event": lambda bad: SESSION_HISTORY.build_subject("t", bad, "turn"),
    "tenant of events": SESSION_HISTORY.build_filter,
    "tenant of a library": LIBRARY_HISTORY.find_stream,
    "family of a library": lambda bad: LIBRARY_HISTORY.build_filter("t", bad),
    "session of events": lambda bad: SESSION_HISTORY.build_filter("t", bad),
    "tenant of tokens": lambda bad: build_token_subject(bad, "s", 1),
    "session of tokens": lambda bad: build_token_subject("t", bad, 1),
    "tenant of a blob": lambda bad: build_blob_subject(bad, compute_digest("")),
    "digest of a blob": lambda bad: build_blob_subject("t", bad),
    "tenant of a media item": lambda bad: build_media_subject(bad, compute_digest("")),
    "digest of a media item": lambda bad: build_media_subject("t", bad),
    "tenant of a snapshot": lambda bad: build_snapshot_subject(bad, "s"),
    "session of a snapshot": lambda bad: build_snapshot_subject("t", bad),
    "tenant of a batch": lambda bad: encode_batch(
        bad, "s", None, [make_draft(TurnReleased(turn=1))]
    ),
    "session of a batch": lambda bad: encode_batch(
        "t", bad, None, [make_draft(TurnReleased(turn=1))]
    ),
}


@pytest.mark.parametrize("bad", BAD, ids=ascii)
@pytest.mark.parametrize("builder", BUILDERS)
def test_invalid_id_never_becomes_part_of_a_subject(builder: str, bad: str) -> None:
    with pytest.raises(Refused) as refusal:
        BUILDERS[builder](bad)
    assert refusal.value.field == builder.split(maxsplit=1)[0]


@given(st.text(max_size=70))
def test_id_is_kept_unchanged_or_refused_with_a_fix(value: str) -> None:
    if FINE.fullmatch(value):
        assert validate_id(value, "session") == value
    else:
        with pytest.raises(Refused) as refusal:
            validate_id(value, "session")
        assert refusal.value.fix
        assert len(refusal.value.detail) < 1000


@given(st.from_regex(FINE, fullmatch=True), st.from_regex(FINE, fullmatch=True))
def test_subjects_of_two_sessions_never_overlap(one: str, other: str) -> None:
    subject = SESSION_HISTORY.build_subject("t", one, "turn")
    assert subject.split(".") == ["session", "t", one, "turn"]
    assert subject.startswith(SESSION_HISTORY.build_filter("t", other).removesuffix(">")) == (
        one == other
    )
