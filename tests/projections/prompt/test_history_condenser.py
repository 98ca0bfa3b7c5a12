"""Condensing the history of one view; a bundle's verifier agrees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.projections.blueprint.token_counters import CharacterCounter
from turnlog.projections.prompt.history.history_condenser import condense_duplicates
from turnlog.projections.prompt.history.repeated_questions import (
    REPEATS_RULES,
    RepeatsRule,
    condense_repeats,
)
from turnlog.projections.prompt.history.turn_messages import TurnExchange, build_exchange
from turnlog.services.bundle.condensed_history import condense_run

COUNTING = CharacterCounter(1)

FIRST, SECOND = REPEATS_RULES["repeats-1"], REPEATS_RULES["repeats-2"]

EACH_RULE = pytest.mark.parametrize("rule", REPEATS_RULES.values(), ids=REPEATS_RULES)

PRICES = [
    ("Show products under $50", "I found 45 of them."),
    ("Show products under $30", "28 of them."),
]


def compute_savings(exchanges: list[TurnExchange], condensed: tuple[TurnExchange, ...]) -> float:
    """Tell which share of a history is not said."""
    return 1 - sum(each.tokens for each in condensed) / sum(each.tokens for each in exchanges)


def build_exchanges(talk: list[tuple[str, str]]) -> list[TurnExchange]:
    """Give a conversation as a view has it."""
    return [build_exchange(turn, *pair, COUNTING) for turn, pair in enumerate(talk, 1)]


def list_texts(exchanges: tuple[TurnExchange, ...]) -> list[str]:
    """Give what is said, message by message."""
    return [message.content for each in exchanges for message in each.content.messages]


@pytest.mark.parametrize("verbatim", range(1, 6))
def test_latest_exchanges_stay_verbatim_and_count_as_repetitions(verbatim: int) -> None:
    talk = [
        (f"Show products under ${n}0", f"Found {n + 29} products:" + "\n- saw" * (n + 29))
        for n in range(4)
    ]
    exchanges = build_exchanges(talk)
    older = max(0, len(talk) - verbatim)
    condensed = condense_repeats(exchanges, COUNTING, SECOND, "repeats", older=older)
    assert list_texts(condensed[-verbatim:]) == [text for pair in talk[-verbatim:] for text in pair]
    digest = list_texts(condensed[: len(condensed) - min(verbatim, 4)])
    assert (
        digest
        == {
            0: [],
            1: ["Show products under $00", "Found 29 products …"],
            2: [
                "Show products under … (2 times, in turn with: $00; $10)",
                "In turn: Found 29 products …; Found 30 products …",
            ],
            3: [
                "Show products under … (3 times, in turn with: $00; $10; $20)",
                "In turn: Found 29 products …; Found 30 products …; Found 31 products …",
            ],
        }[older]
    )


def test_two_repetitions_are_not_condensed() -> None:
    exchanges = build_exchanges(PRICES)
    assert condense_repeats(exchanges, COUNTING, SECOND, "repeats", older=1) == tuple(exchanges)


@EACH_RULE
def test_u11_condensing_repeated_turns_saves_at_least_half(rule: RepeatsRule) -> None:
    items = ("saw", "axe", "awl", "adze", "rasp", "plane", "chisel", "mallet")
    talk = [
        (f'How much is the "{item}" today, please?', f"It is ${n} now, and we have {n * n} left.")
        for n, item in enumerate(items, 5)
    ]
    exchanges = build_exchanges(talk)
    condensed = condense_repeats(exchanges, COUNTING, rule, "repeats")
    (question, answer) = list_texts(condensed)
    assert all(f'"{item}"' in question for item in items)
    assert answer.startswith("It is … now, and we have … left. (each time, in turn with: $5, 25;")
    assert 0.5 <= compute_savings(exchanges, condensed) <= 0.8


@pytest.mark.parametrize(
    "talk",
    [
        [("Who are you?", "A clerk."), ("Where?", "Here.")],
        PRICES,
        [*PRICES, ("Show products over $50", "I found 3 of them.")],
        [("42", "No."), ("17", "No."), ("5", "Yes, 5!")],
    ],
)
@EACH_RULE
def test_turns_that_do_not_repeat_are_not_condensed(
    talk: list[tuple[str, str]], rule: RepeatsRule
) -> None:
    exchanges = build_exchanges(talk)
    assert condense_repeats(exchanges, COUNTING, rule, "repeats") == tuple(exchanges)


@pytest.mark.parametrize(
    "values",
    [
        ("2 May", "3 May", "4 June 2025"),
        ("May 2", "May 3, 2025", "2025-01-02"),
        ("$5", "€ 1,250.50", "12%"),
        ('"a b"', "“c”", "7"),
    ],
)
@EACH_RULE
def test_dates_amounts_quotes_and_numbers_are_condensed_as_values(
    values: tuple[str, ...], rule: RepeatsRule
) -> None:
    talk = [
        (f"How many orders of {value}, all in all?", f"{n} orders")
        for n, value in enumerate(values)
    ]
    (question, answer) = list_texts(
        condense_repeats(build_exchanges(talk), COUNTING, rule, "repeats")
    )
    expected_values = f"({len(values)} times, in turn with: {'; '.join(values)})"
    assert question == f"How many orders of …, all in all? {expected_values}"
    assert answer == "… orders (each time, in turn with: " + "; ".join("0123"[: len(values)]) + ")"


SOLD = "Sales by month in the table, as you asked, of the whole of the year that is now over:"

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


@EACH_RULE
@pytest.mark.parametrize("case", ANSWERED.values(), ids=ANSWERED)
def test_condensed_answers_keep_their_own_wording(
    case: tuple[list[tuple[str, str]], list[str]], rule: RepeatsRule
) -> None:
    talk, answers = case
    short = list_texts(condense_repeats(build_exchanges(talk), COUNTING, rule, "repeats"))
    assert short[1:] == [f"In turn: {'; '.join(answers)}"]
    assert [short] == condense_run({"condensed": rule.name}, [list(pair) for pair in talk])


@pytest.mark.parametrize("answer", NOT_COUNTED.values(), ids=NOT_COUNTED)
def test_first_rule_does_not_condense_an_answer_that_counts_something_else(
    answer: str,
) -> None:
    talk = [(f"Show boats of harbour {n}", f"There are {n}0 boats. {MORE}") for n in (11, 12, 13)]
    talk[1] = ("Show boats of harbour 21", answer)
    exchanges = build_exchanges(talk)
    assert condense_repeats(exchanges, COUNTING, FIRST, "repeats") == tuple(exchanges)
    assert len(condense_repeats(exchanges, COUNTING, SECOND, "repeats")) == 1


@pytest.mark.parametrize(
    ("questions", "values"),
    [
        (
            ("Show sales in Berlin", "Show sales in Paris", "Show sales in Rome"),
            "Berlin Paris Rome",
        ),
        (
            ("What of New York today?", "What of Rio de Janeiro today?", "What of Oslo today?"),
            "New York;Rio de Janeiro;Oslo",
        ),
        (("How is LOGT11?", "How is PAPR11?", "How is SHOP11?"), "LOGT11;PAPR11;SHOP11"),
        (("Find 'a b' for me", "Find «c» for me", "Find `d` for me"), "'a b';«c»;`d`"),
        (("May I ask Ann on 3 May?", "May I ask Bob on 4 May?", "May I ask Cid on 5 May?"), ""),
    ],
)
def test_proper_names_and_all_kinds_of_quotes_are_condensed_as_values(
    questions: tuple[str, ...], values: str
) -> None:
    exchanges = build_exchanges([(question, f"{MORE} {question}") for question in questions])
    (merged,) = condense_repeats(exchanges, COUNTING, SECOND, "repeats")
    values_text = "; ".join(values.split(";" if ";" in values else " "))
    assert list_texts((merged,))[0].endswith(
        f"(3 times, in turn with: {values_text})" if values_text else ")"
    )


@pytest.mark.parametrize(
    "questions",
    [
        ("Show sales in Berlin", "Show costs in Paris", "Show sales in Rome"),
        ("Who runs Oslo and why?", "Who runs Rome and how?", "Who runs Bonn and why?"),
        ("Berlin", "Paris", "Rome"),
    ],
)
def test_different_questions_are_not_condensed(questions: tuple[str, ...]) -> None:
    exchanges = build_exchanges([(question, MORE) for question in questions])
    assert condense_repeats(exchanges, COUNTING, SECOND, "repeats") == tuple(exchanges)


@pytest.mark.parametrize(
    ("answer", "lead"),
    [
        (f"{MORE} They came to 4.2 million. {MORE}", f"{MORE} They came to 4.2 million. …"),
        (f"{MORE} And so on.", f"{MORE} …"),
        (
            f"{SOLD}\n| month | sales |\n|---|---|\n| 1 | 4 |\n| 2 | 5 |",
            f"{SOLD} (rows: 2)",
        ),
        ("\n".join(f"- the sale number {n} of them all" for n in range(40)), "(rows: 40)"),
        ("so very long " * 30, f"{('so very long ' * 13)[:158].strip()} …"),
    ],
)
def test_long_answer_is_condensed_to_its_first_figure_and_row_count(answer: str, lead: str) -> None:
    talk = [(f"Show sales in {city}", f"{answer} {city}") for city in ("Bonn", "Oslo", "Rome")]
    talk[0] = (talk[0][0], answer)
    (merged,) = condense_repeats(build_exchanges(talk), COUNTING, SECOND, "repeats")
    assert list_texts((merged,))[1].startswith(f"In turn: {lead}; ")


@pytest.mark.parametrize(
    "talk",
    [
        [("Yes", "Done."), ("No", "Left."), ("Yes", "Done.")],
        [("What do you know?", MORE), (f"Is this right?\n\n{MORE}", "It is.")],
    ],
)
def test_short_paragraphs_and_repetition_across_roles_are_not_removed(
    talk: list[tuple[str, str]],
) -> None:
    exchanges = build_exchanges(talk)
    assert condense_duplicates(exchanges, COUNTING) == (tuple(exchanges), ())


PIECES = st.sampled_from(
    '"a b"|$5|3,000|12%|May 3|2025-01-02|- it|1. it|so|…|\n|\n\n|7 many|3,000 manys.|$1.50 many'
    "|Rome|New|York of|de Rio|I|I\u2019m|\u201eA|NASA|So|'x y'|`q`|\n|---|\n| a |. Then|e-Mail"
    f"|{'well, ' * 14}".split("|")
)

TEXTS = st.lists(PIECES, min_size=1, max_size=8).map(" ".join)


@EACH_RULE
@given(TEXTS, st.lists(st.tuples(st.integers(0, 99), TEXTS), min_size=3, max_size=5), st.data())
def test_bundle_verifier_condenses_repeated_turns_identically(
    rule: RepeatsRule, noun: str, answers: list[tuple[int, str]], data: st.DataObject
) -> None:
    talk = [(f"how many are {noun} of {n}", answered) for n, answered in answers]
    older = data.draw(st.integers(1, len(talk)), label="older")
    for each in condense_repeats(build_exchanges(talk), COUNTING, rule, "repeats", older=older):
        if each.condensed_run:
            run = [list(pair) for pair in talk[each.turn - 1 : each.last_turn]]
            source = {"condensed": each.condensed_run.condensed}
            assert [list_texts((each,))] == condense_run(source, run)


@given(st.lists(st.lists(TEXTS, min_size=1, max_size=4), min_size=2, max_size=4))
def test_bundle_verifier_removes_duplicates_identically(paragraphs: list[list[str]]) -> None:
    # Every other turn began by itself, and has no question
    questions = ["\n".join(text) * (place % 2) for place, text in enumerate(paragraphs)]
    talk = [
        (question, "\n\n".join(text) * 12)
        for question, text in zip(questions, paragraphs, strict=True)
    ]
    for each in condense_duplicates(build_exchanges(talk), COUNTING)[0]:
        if each.condensed_run:
            source = {"condensed": "duplicates-1", "again": each.condensed_run.again}
            (texts,) = condense_run(source, [list(talk[each.turn - 1])])
            assert list_texts((each,)) == [text for text in texts if text]
