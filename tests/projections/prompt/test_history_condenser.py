"""Condensing the history of one view; a bundle's verifier agrees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.projections.blueprint.token_counters import CharacterCounter
from turnlog.projections.prompt.history.history_condenser import (
    condense_duplicates,
    condense_repeats,
)
from turnlog.projections.prompt.history.turn_messages import TurnExchange, build_exchange
from turnlog.services.bundle import verifier

COUNTING = CharacterCounter(1)

PRICES = [
    ("Show products under $50", "I found 45 of them."),
    ("Show products under $30", "28 of them."),
]


def compute_savings(exchanges: list[TurnExchange], told: tuple[TurnExchange, ...]) -> float:
    """Tell which share of a history is not said."""
    return 1 - sum(each.tokens for each in told) / sum(each.tokens for each in exchanges)


def build_exchanges(talk: list[tuple[str, str]]) -> list[TurnExchange]:
    """Give a conversation as a view has it."""
    return [build_exchange(turn, *said, COUNTING) for turn, said in enumerate(talk, 1)]


def list_texts(told: tuple[TurnExchange, ...]) -> list[str]:
    """Give what is said, message by message."""
    return [message.content for each in told for message in each.content.messages]


def test_u11_half_and_more_of_what_repeats_is_saved() -> None:
    items = ("saw", "axe", "awl", "adze", "rasp", "plane", "chisel", "mallet")
    talk = [
        (f'How much is the "{item}" today, please?', f"It is ${n} now, and we have {n * n} left.")
        for n, item in enumerate(items, 5)
    ]
    exchanges = build_exchanges(talk)
    told = condense_repeats(exchanges, COUNTING, "repeats")
    (question, answer) = list_texts(told)
    assert all(f'"{item}"' in question for item in items)
    assert answer.startswith("It is … now, and we have … left. (each time, in turn with: $5, 25;")
    assert 0.5 <= compute_savings(exchanges, told) <= 0.8


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
    exchanges = build_exchanges(talk)
    assert condense_repeats(exchanges, COUNTING, "repeats") == tuple(exchanges)


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
    (question, answer) = list_texts(condense_repeats(build_exchanges(talk), COUNTING, "repeats"))
    told = f"({len(values)} times, in turn with: {'; '.join(values)})"
    assert question == f"How many orders of …, all in all? {told}"
    assert answer == "… orders (each time, in turn with: " + "; ".join("0123"[: len(values)]) + ")"


MORE = "They are all well made, and each of them comes with a handle and a word of advice."

ANSWERED: dict[str, tuple[list[tuple[str, str]], list[str]]] = {
    "briefly": (
        [("Are there any saws under $5?", "No.")]
        + [("Are there any saws under $9?", "Yes, 2!")] * 2,
        ["No.", "Yes, 2!", "Yes, 2!"],
    ),
    "with a count": (
        [
            ("Show boats of harbour 1", f"Sure! There are 45 boats in it.\n{MORE}"),
            ("Show boats of harbour 2", f"In 2026 we counted 1 boat: the $3.50 one. {MORE}"),
            ("Show boats of harbour 3", f"12 boats could not be found.\n- {MORE}\n- 7 boats"),
        ],
        [
            "Sure! There are 45 boats in it …",
            "In 2026 we counted 1 boat …",
            "12 boats could not be found …",
        ],
    ),
}

NOT_COUNTED = {
    "another thing": f"Gate 7 has boats. {MORE}",
    "a word between others": f"Section 4 of the register tells of boats. {MORE}",
    "a value of the question": f"In harbour 21 boats are well made. {MORE}",
    "lines of a list": f"Refused, because it is\n- locked, {MORE}\n- full of 3 boats",
    "something else first": f"{MORE} And there are 12 boats.",
}


@pytest.mark.parametrize("case", ANSWERED.values(), ids=ANSWERED)
def test_answers_are_told_in_their_own_words(
    case: tuple[list[tuple[str, str]], list[str]],
) -> None:
    talk, told = case
    short = list_texts(condense_repeats(build_exchanges(talk), COUNTING, "repeats"))
    assert short[1:] == [f"In turn: {'; '.join(told)}"]
    assert [short] == verifier.condense_run(
        {"condensed": "repeats-1"}, [list(said) for said in talk]
    )


@pytest.mark.parametrize("answer", NOT_COUNTED.values(), ids=NOT_COUNTED)
def test_an_answer_that_does_not_count_what_was_asked_for_stands_whole(answer: str) -> None:
    talk = [(f"Show boats of harbour {n}", f"There are {n}0 boats. {MORE}") for n in (11, 12, 13)]
    talk[1] = ("Show boats of harbour 21", answer)
    exchanges = build_exchanges(talk)
    assert condense_repeats(exchanges, COUNTING, "repeats") == tuple(exchanges)


@pytest.mark.parametrize(
    "talk",
    [
        [("Yes", "Done."), ("No", "Left."), ("Yes", "Done.")],
        [("What do you know?", MORE), (f"Is this right?\n\n{MORE}", "It is.")],
    ],
)
def test_what_is_short_and_what_the_other_says_again_stays(talk: list[tuple[str, str]]) -> None:
    exchanges = build_exchanges(talk)
    assert condense_duplicates(exchanges, COUNTING) == (tuple(exchanges), ())


PIECES = st.sampled_from(
    '"a b"|$5|3,000|12%|May 3|2025-01-02|- it|1. it|so|…|\n|\n\n|7 many|3,000 manys.|$1.50 many'
    f"|{'well, ' * 14}".split("|")
)

TEXTS = st.lists(PIECES, min_size=1, max_size=8).map(" ".join)


@given(TEXTS, st.lists(st.tuples(st.integers(0, 99), TEXTS), min_size=3, max_size=5))
def test_the_verifier_of_a_bundle_tells_repeats_alike(
    asked: str, answers: list[tuple[int, str]]
) -> None:
    talk = [(f"how many are {asked} of {n}", answered) for n, answered in answers]
    for each in condense_repeats(build_exchanges(talk), COUNTING, "repeats"):
        if each.condensed_run:
            run = [list(said) for said in talk[each.turn - 1 : each.last_turn]]
            source = {"condensed": each.condensed_run.condensed}
            assert [list_texts((each,))] == verifier.condense_run(source, run)


@given(st.lists(st.lists(TEXTS, min_size=1, max_size=4), min_size=2, max_size=4))
def test_the_verifier_of_a_bundle_leaves_out_alike(paragraphs: list[list[str]]) -> None:
    # Every other turn began by itself, and has no question
    asked = ["\n".join(text) * (place % 2) for place, text in enumerate(paragraphs)]
    talk = [(said, "\n\n".join(text) * 12) for said, text in zip(asked, paragraphs, strict=True)]
    for each in condense_duplicates(build_exchanges(talk), COUNTING)[0]:
        if each.condensed_run:
            source = {"condensed": "duplicates-1", "again": each.condensed_run.again}
            (told,) = verifier.condense_run(source, [list(talk[each.turn - 1])])
            assert list_texts((each,)) == [text for text in told if text]
