"""Condensing on strings: what is told in short and what is not; a bundle's verifier agrees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.projections.window.condensing import duplicates_told, repeats_told
from turnlog.projections.window.counting import ByCharacters
from turnlog.projections.window.spoken import Exchange, exchange
from turnlog.services.bundle import verifier

COUNTING = ByCharacters(1)
PRICES = [
    ("Show products under $50", "I found 45 of them."),
    ("Show products under $30", "28 of them."),
]


def saved(exchanges: list[Exchange], told: tuple[Exchange, ...]) -> float:
    """Tell which share of a history is not said."""
    return 1 - sum(each.tokens for each in told) / sum(each.tokens for each in exchanges)


def exchanged(talk: list[tuple[str, str]]) -> list[Exchange]:
    """Give a conversation as a view has it."""
    return [exchange(turn, *said, COUNTING) for turn, said in enumerate(talk, 1)]


def words(told: tuple[Exchange, ...]) -> list[str]:
    """Give what is said, message by message."""
    return [message.content for each in told for message in each.said.messages]


def test_u11_half_and_more_of_what_repeats_is_saved() -> None:
    items = ("saw", "axe", "awl", "adze", "rasp", "plane", "chisel", "mallet")
    talk = [
        (f'How much is the "{item}" today, please?', f"It is ${n} now, and we have {n * n} left.")
        for n, item in enumerate(items, 5)
    ]
    exchanges = exchanged(talk)
    told = repeats_told(exchanges, COUNTING, "repeats")
    (question, answer) = words(told)
    assert all(f'"{item}"' in question for item in items)
    assert answer.startswith("It is … now, and we have … left. (each time, in turn with: $5, 25;")
    assert 0.5 <= saved(exchanges, told) <= 0.8


@pytest.mark.parametrize(
    "talk",
    [
        [("Who are you?", "A clerk."), ("Where?", "Here.")],
        PRICES,
        [*PRICES, ("Show products over $50", "I found 3 of them.")],
        [("42", "No."), ("17", "No."), ("5", "Yes, 5!")],
        [("Tell me more", "Well, " * 40)] * 3,
    ],
)
def test_only_what_repeats_is_told_in_short(talk: list[tuple[str, str]]) -> None:
    exchanges = exchanged(talk)
    assert repeats_told(exchanges, COUNTING, "repeats") == tuple(exchanges)


@pytest.mark.parametrize(
    "values",
    [
        ("2 May", "3 May", "4 June 2025"),
        ("May 2", "May 3, 2025", "2025-01-02"),
        ("$5", "€ 1,250.50", "12%"),
        ('"a b"', "“c”", "7"),
    ],
)
def test_dates_money_quotes_and_numbers_are_values(values: tuple[str, ...]) -> None:
    talk = [
        (f"How many orders of {value}, all in all?", f"{n} orders")
        for n, value in enumerate(values)
    ]
    (question, answer) = words(repeats_told(exchanged(talk), COUNTING, "repeats"))
    told = f"({len(values)} times, in turn with: {'; '.join(values)})"
    assert question == f"How many orders of …, all in all? {told}"
    assert answer == "… orders (each time, in turn with: " + "; ".join("0123"[: len(values)]) + ")"


def test_an_answer_that_counts_nothing_is_kept_where_it_is_brief() -> None:
    talk = [
        ("Are there any saws under $5?", "No."),
        *([("Are there any saws under $9?", "Yes, 2 saws!")] * 2),
    ]
    assert (
        words(repeats_told(exchanged(talk), COUNTING, "repeats"))[1]
        == "In turn: No.; 2 saws; 2 saws"
    )


PIECES = st.sampled_from(
    ['"a b"', "$5", "3,000", "12%", "May 3", "2025-01-02", "- it", "1. it", "so", "…", "\n", "\n\n"]
)
TEXTS = st.lists(PIECES, min_size=1, max_size=8).map(" ".join)


@given(TEXTS, st.lists(st.tuples(st.integers(0, 99), TEXTS), min_size=3, max_size=5))
def test_the_verifier_of_a_bundle_tells_repeats_alike(
    asked: str, answers: list[tuple[int, str]]
) -> None:
    talk = [(f"how many are {asked} of {n}", answered) for n, answered in answers]
    for each in repeats_told(exchanged(talk), COUNTING, "repeats"):
        if each.retelling:
            run = [list(said) for said in talk[each.turn - 1 : each.last]]
            source = {"condensed": each.retelling.condensed}
            assert [words((each,))] == verifier.in_short(source, run)


@given(st.lists(st.lists(TEXTS, min_size=1, max_size=4), min_size=2, max_size=4))
def test_the_verifier_of_a_bundle_leaves_out_alike(paragraphs: list[list[str]]) -> None:
    # Every other turn began by itself, and has no question
    asked = ["\n".join(text) * (place % 2) for place, text in enumerate(paragraphs)]
    talk = [(said, "\n\n".join(text) * 12) for said, text in zip(asked, paragraphs, strict=True)]
    for each in duplicates_told(exchanged(talk), COUNTING)[0]:
        if each.retelling:
            source = {"condensed": "duplicates-1", "again": each.retelling.again}
            (told,) = verifier.in_short(source, [list(talk[each.turn - 1])])
            assert words((each,)) == [text for text in told if text]
