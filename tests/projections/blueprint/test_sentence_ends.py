"""Where sentences end, in every script, and that a text which grows has the same ends."""
# ruff: noqa: RUF001 - other scripts are what this is about

from __future__ import annotations

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from turnlog.projections.blueprint import sentence_marks
from turnlog.projections.blueprint.sentence_ends import (
    find_last_sentence_end,
    get_undecided_end,
    iterate_sentence_ends,
)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One. Two", "One."),
        ("It costs 3.50 and", ""),
        ("A list, e.g. of this", ""),
        ("Это т. е. так. Дальше", "Это т. е. так."),
        ('He said "no." Then', 'He said "no."'),
        ("It **ends.** Then", "It **ends.**"),
        ("One.  (Two)", "One."),
        ("Wait... What", "Wait..."),
        ("see a?b=1 and", ""),
        ("这是一个句子。这里还", "这是一个句子。"),
        ("他说。「好」", "他说。"),
        ("「はい。」と", "「はい。」"),
        ("本当！？それ", "本当！？"),
        ("真的?我不知道", "真的?"),
        ("これは文である．次の文", "これは文である．"),
        ("यह वाक्य है। दूसरा", "यह वाक्य है।"),
        ("هل هذا سؤال؟ نعم", "هل هذا سؤال؟"),
        ("یہ جملہ ہے۔ دوسرا", "یہ جملہ ہے۔"),
        ("Սա նախադասություն է։ Հաջորդը", "Սա նախադասություն է։"),
        ("ይህ ነው። ሌላ", "ይህ ነው።"),
        ("នេះជាប្រយោគ។ ទីពីរ", "នេះជាប្រយោគ។"),
        ("ဒါဟာ ဝါကျ။ နောက်", "ဒါဟာ ဝါကျ။"),
        ("རྒྱལ་པོ། དེ", "རྒྱལ་པོ།"),
        ("ეს არის. შემდეგი", "ეს არის."),
        ("A line\nAnother", "A line"),
        ("A line.  \r\nanother", "A line."),
        ("No end at all", ""),
        ("The end.", ""),
    ],
)
def test_first_sentence_of_a_text_ends_at_its_mark(text: str, first: str) -> None:
    ends = [each.end for each in iterate_sentence_ends(text)]
    assert text[: next(iter(ends), 0)] == first


def test_last_end_within_a_length_is_decided_by_what_follows_it() -> None:
    text = "One. Two e.g.    three. Four"
    assert text[: find_last_sentence_end(text, 20)] == "One."
    assert text[: find_last_sentence_end(text, 23)] == "One. Two e.g.    three."
    assert find_last_sentence_end(text, 3) == 0


EVERY = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))

PIECES = st.lists(
    st.text(alphabet='aZ字।。.!?…"”“」( *3\n', min_size=1, max_size=6), min_size=1, max_size=8
)


@given(PIECES)
def test_text_has_the_same_ends_however_it_grows(pieces: list[str]) -> None:
    text, undecided, read, found = "".join(pieces), "", 0, list[int]()
    for piece in pieces:
        grown, last = undecided + piece, 0
        for each in iterate_sentence_ends(grown):
            last = each.next_start
            found.append(read - len(undecided) + last)
        undecided = get_undecided_end(grown[last:])
        read += len(piece)
    assert found == [each.next_start for each in iterate_sentence_ends(text)]


@pytest.mark.parametrize(
    ("table", "pattern"),
    [
        ("FULL_STOPS", r"\p{SB=ATerm}"),
        ("TERMINATORS", r"\p{SB=STerm}"),
        ("CLOSING", r"[\p{SB=Close}--\p{Ps}]"),
        ("OPENING_QUOTES", r"[\p{SB=Close}&&\p{Pi}]"),
        ("LOWER_CASE", r"\p{SB=Lower}"),
    ],
)
def test_tables_are_those_of_unicode(table: str, pattern: str) -> None:
    """Where a later Unicode differs, its table takes effect with a new version of the assembler."""
    ranges = list[str]()
    for run in regex.finditer(f"(?:{pattern})+", EVERY, flags=regex.VERSION1):
        ranges += _split_run([ord(each) for each in run[0]])
    assert " ".join(getattr(sentence_marks, table).split()) == " ".join(ranges)


def _split_run(points: list[int]) -> list[str]:
    first, last = points[0], points[-1]
    return [f"{first:04X}" if first == last else f"{first:04X}-{last:04X}"]
