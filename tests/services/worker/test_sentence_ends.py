"""Where a text that is held back may be released, in every script."""
# ruff: noqa: RUF001 - other scripts are what this is about

from __future__ import annotations

import pytest

from turnlog.services.worker.attempts.sentence_ends import find_last_end, has_open_end


@pytest.mark.parametrize(
    ("text", "released"),
    [
        ("One. Two", "One. "),
        ("It costs 3.50 and", ""),
        ('He said "no." Then', 'He said "no." '),
        ("这是一个句子。这里还", "这是一个句子。"),
        ("「はい。」と", "「はい。」"),
        ("本当！？それ", "本当！？"),
        ("यह वाक्य है। दूसरा", "यह वाक्य है।"),
        ("هل هذا سؤال؟ نعم", "هل هذا سؤال؟"),
        ("یہ جملہ ہے۔ دوسرا", "یہ جملہ ہے۔"),
        ("Սա նախադասություն է։ Հաջորդը", "Սա նախադասություն է։"),
        ("ይህ ነው። ሌላ", "ይህ ነው።"),
        ("នេះជាប្រយោគ។ ទីពីរ", "នេះជាប្រយោគ។"),
        ("A line\nAnother", "A line\n"),
        ("No end at all", ""),
    ],
)
def test_sentence_ends_of_a_script_are_found(text: str, released: str) -> None:
    assert text[: find_last_end(text)] == released


@pytest.mark.parametrize(
    ("text", "is_open"), [("One.", True), ('"One!"', True), ("One", False), ("One. ", False)]
)
def test_latin_stop_at_the_end_waits_for_white_space(text: str, *, is_open: bool) -> None:
    assert has_open_end(text) is is_open
