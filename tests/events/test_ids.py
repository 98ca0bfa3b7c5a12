from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.events.codec import write
from turnlog.events.content import digest_of
from turnlog.events.errors import Refused
from turnlog.events.ids import (
    blob_subject,
    checked_id,
    session_subject,
    session_subjects,
    snapshot_subject,
    stream_of,
    token_subject,
    token_subjects,
)
from turnlog.events.testing import draft
from turnlog.events.turn import TurnReleased

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
    "tenant of a stream": stream_of,
    "tenant of an event": lambda bad: session_subject(bad, "s", "turn"),
    "session of an event": lambda bad: session_subject("t", bad, "turn"),
    "tenant of events": session_subjects,
    "session of events": lambda bad: session_subjects("t", bad),
    "tenant of tokens": lambda bad: token_subject(bad, "s", 1),
    "session of tokens": lambda bad: token_subject("t", bad, 1),
    "tenant of all tokens": token_subjects,
    "session of all tokens": lambda bad: token_subjects("t", bad),
    "tenant of a blob": lambda bad: blob_subject(bad, digest_of("")),
    "digest of a blob": lambda bad: blob_subject("t", bad),
    "tenant of a snapshot": lambda bad: snapshot_subject(bad, "s"),
    "session of a snapshot": lambda bad: snapshot_subject("t", bad),
    "tenant of a batch": lambda bad: write(bad, "s", None, [draft(TurnReleased(turn=1))]),
    "session of a batch": lambda bad: write("t", bad, None, [draft(TurnReleased(turn=1))]),
}


@pytest.mark.parametrize("bad", BAD, ids=ascii)
@pytest.mark.parametrize("builder", BUILDERS)
def test_no_bad_id_becomes_part_of_a_subject(builder: str, bad: str) -> None:
    with pytest.raises(Refused) as refusal:
        BUILDERS[builder](bad)
    assert refusal.value.field == builder.split(maxsplit=1)[0]


@given(st.text(max_size=70))
def test_an_id_is_kept_as_it_is_or_refused_with_the_way_out(value: str) -> None:
    if FINE.fullmatch(value):
        assert checked_id(value, "session") == value
    else:
        with pytest.raises(Refused) as refusal:
            checked_id(value, "session")
        assert refusal.value.fix
        assert len(refusal.value.detail) < 1000


@given(st.from_regex(FINE, fullmatch=True), st.from_regex(FINE, fullmatch=True))
def test_subjects_of_two_sessions_never_meet(one: str, other: str) -> None:
    subject = session_subject("t", one, "turn")
    assert subject.split(".") == ["session", "t", one, "turn"]
    assert subject.startswith(session_subjects("t", other).removesuffix(">")) == (one == other)
