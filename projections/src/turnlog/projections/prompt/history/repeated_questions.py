"""Merge exchanges that ask the same question again and again, each value and each result kept.

Two questions are the same if they are equal once their values are masked:
quoted texts, dates, amounts, numbers, and proper names. The merged exchange keeps all values of the
questions, and all values of answers that differ in nothing else. Other answers are kept whole if
they are short, and otherwise up to the sentence that counts what was asked for.

The first version of the rule masked no proper names, merged no exchange with any other long answer,
and counted the work of a turn as part of its answer. The second gives such an answer by its first
sentence with a figure and the number of its rows, and leaves the work out. Neither ever changes:
prompts on record are rebuilt by the version they name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise, takewhile
from typing import Final, Literal

from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.history.turn_messages import (
    CondensedRun,
    TurnExchange,
    TurnMessages,
    build_turn_messages,
)

MIN_REPEATS: Final = 3
"""Minimum number of consecutive exchanges that count as one repeated question."""

MAX_BRIEF_CHARACTERS: Final = 80
"""Maximum length of an answer that is kept whole, and of the excerpt of one that counts."""

MAX_LEAD_CHARACTERS: Final = 160
"""Maximum length of the excerpt of an answer without a count of what the question names."""

LIST_ITEM: Final = re.compile(r"\s*(?:[-*•|]|\d+[.)])\s")

_TABLE_RULE: Final = re.compile(r"\s*\|[\s:|-]+\Z")
"""The line between the head of a table and its rows."""

_SENTENCE_END: Final = re.compile(r"[.!?…](?=\s|\Z)")

_MONTH: Final = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sep(?:t|tember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b"
)

_VALUE: Final = re.compile(
    # The lookahead rejects most positions cheaply, since most of a text is no value.
    r"(?=[\"“\d$€£ADFJMNOS])(?:\"[^\"\n]+\"|“[^”\n]+”"
    r"|\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
    rf"|\d{{1,2}} {_MONTH}(?: \d{{4}})?|\b{_MONTH} \d{{1,2}}(?:, \d{{4}})?\b"
    r"|[$€£] ?\d+(?:[.,]\d+)*|\d+(?:[.,]\d+)*%?)"
)
"""A quoted text, a date, an amount of money or a number."""

_LINEAR_VALUE: Final = re.compile(_VALUE.pattern.replace("“[^”", "“[^“”"))
"""The same, in linear time where a text opens many quotes and closes none."""

_OTHER_QUOTE: Final = re.compile(r"(?<!\w)'[^'\n]+'(?!\w)|„[^„“”\n]+[“”]|«[^«»\n]+»|`[^`\n]+`")
"""A text in other quotation marks."""

_WORD: Final = re.compile(r"[^\W_][\w'\u2019-]*")

_NAME_JOINTS: Final = frozenset(
    ("da", "de", "del", "den", "der", "di", "do", "du", "la", "le", "of", "the", "van", "von")
)
"""Lower-case words within a proper name: `Rio de Janeiro`."""

_NOT_NAMES: Final = frozenset(("I", "I'm", "I'd", "I'll", "I've"))

_NOUN: Final = re.compile(r"[^\W\d_]{4,}")
"""A word that may be counted; shorter words are mostly function words."""

_COUNT: Final = re.compile(
    rf"(?<![\d.,$€£])(\d+(?:,\d{{3}})*) ({_NOUN.pattern})"
    rf"(?=((?:[^.!?:\n]|[.!?:](?=\S)){{0,{MAX_BRIEF_CHARACTERS}}}))"
)
"""A number, the noun it counts, and the rest of the sentence."""

TextRange = tuple[int, int]
"""Begin and end of a value in a text."""


@dataclass(frozen=True, slots=True)
class RepeatsRule:
    """One version of the rule."""

    name: Literal["repeats-1", "repeats-2"]
    find_values: Callable[[str], Sequence[TextRange]]
    """Returns the ranges of the values of a text, in order."""
    shorten_answer: Callable[[str, str], str | None]
    """Returns the short form of an answer to a question; None if it has none."""
    shows_work: bool
    """Whether the work of a turn counts as part of its answer."""

    def list_values(self, text: str) -> list[str]:
        """Return the values of a text, in order."""
        return [text[begin:end] for begin, end in self.find_values(text)]

    def replace_values(self, text: str) -> str:
        """Return a text with its values masked."""
        ends = [0, *(place for each in self.find_values(text) for place in each), len(text)]
        return "…".join([text[begin:end] for begin, end in list(pairwise(ends))[::2]])

    def get_messages(self, exchange: TurnExchange) -> TurnMessages:
        """Return the messages of an exchange that are merged."""
        return exchange.content if self.shows_work else exchange.spoken or exchange.content


def condense_repeats(
    exchanges: Sequence[TurnExchange],
    counting: TokenCounter,
    rule: RepeatsRule,
    by: str,
    *,
    older: int | None = None,
) -> tuple[TurnExchange, ...]:
    """Merge the exchanges of each repeated question where that is shorter.

    `by` names what asks for it: the option of a view, which records what it saved, or a trim step.
    Only the first `older` exchanges are merged, all if it is None; the others count as repetitions.
    """
    condensed: list[TurnExchange] = []
    left = len(exchanges) if older is None else older
    for alike in _group_alike_exchanges(exchanges, rule):
        run, verbatim = alike[: max(0, left)], alike[max(0, left) :]
        left -= len(alike)
        is_repeated = run and len(alike) >= MIN_REPEATS
        merged = merge_repeats([*map(rule.get_messages, run)], rule) if is_repeated else None
        if merged and merged.characters < sum([each.content.characters for each in run]):
            condensed.append(
                _build_merged_exchange(run=run, merged=merged, rule=rule, by=by, counting=counting)
            )
        else:
            condensed += run
        condensed += verbatim
    return tuple(condensed)


def _build_merged_exchange(
    run: Sequence[TurnExchange],
    merged: TurnMessages,
    rule: RepeatsRule,
    by: str,
    counting: TokenCounter,
) -> TurnExchange:
    tokens = sum(counting.count_tokens(each.content) for each in merged.messages)
    # A trim step records its saving itself.
    saved = sum(each.tokens for each in run) - tokens if by == "repeats" else 0
    condensed = CondensedRun(
        last_turn=run[-1].turn, condensed=rule.name, rule=by, shows_work=rule.shows_work
    )
    return TurnExchange(
        turn=run[0].turn, content=merged, tokens=tokens, condensed_run=condensed, saved=saved
    )


def _group_alike_exchanges(
    exchanges: Sequence[TurnExchange], rule: RepeatsRule
) -> Iterator[list[TurnExchange]]:
    """Yield runs of adjacent exchanges that ask the same question; any other exchange alone."""
    for pattern, asking in groupby(exchanges, key=lambda each: _find_question_pattern(each, rule)):
        run: list[TurnExchange] = []
        for exchange in asking:
            if run and (pattern is None or not _is_next_repeat(run[-1], exchange, rule)):
                yield run
                run = []
            run.append(exchange)
        yield run


def _is_next_repeat(before: TurnExchange, after: TurnExchange, rule: RepeatsRule) -> bool:
    return before.turn + 1 == after.turn and all(
        rule.shorten_answer(*(message.content for message in rule.get_messages(each).messages))
        for each in (before, after)
    )


def _find_question_pattern(exchange: TurnExchange, rule: RepeatsRule) -> str | None:
    """Return the question with its values masked, or None if the turn is no plain exchange."""
    messages = rule.get_messages(exchange)
    if exchange.condensed_run or exchange.media or not messages.is_pair:
        return None
    return _build_question_pattern(messages.messages[0].content, rule)


@lru_cache(4_096)
def _build_question_pattern(question: str, rule: RepeatsRule) -> str | None:
    pattern = " ".join(rule.replace_values(question).split()).casefold()
    words = sum(any(map(str.isalpha, word)) for word in pattern.split())
    return pattern if words > 1 else None


def merge_repeats(run: Sequence[TurnMessages], rule: RepeatsRule) -> TurnMessages:
    """Merge pairs of a question and its answer into one; a single pair has its answer shortened."""
    questions, answers = zip(
        *([each.content for each in turn.messages] for turn in run), strict=True
    )
    if len(run) == 1:
        short = rule.shorten_answer(questions[0], answers[0])
        return build_turn_messages(questions[0], short or answers[0])
    question = (
        f"{rule.replace_values(questions[0])} ({len(run)} times{_format_values(questions, rule)})"
    )
    if len({rule.replace_values(answer) for answer in answers}) == 1:
        values = _format_values(answers, rule)
        return build_turn_messages(
            question, f"{rule.replace_values(answers[0])} (each time{values})"
        )
    results = [rule.shorten_answer(*pair) or "" for pair in zip(questions, answers, strict=True)]
    return build_turn_messages(question, f"In turn: {'; '.join(results)}")


def _format_values(texts: Iterable[str], rule: RepeatsRule) -> str:
    values = [", ".join(rule.list_values(text)) for text in texts]
    return f", in turn with: {'; '.join(values)}" if any(values) else ""


def _find_plain_values(text: str) -> list[TextRange]:
    return [found.span() for found in _VALUE.finditer(text)]


def _find_values_and_names(text: str) -> list[TextRange]:
    """Return the ranges of values and of proper names; of two that overlap, the first and longer.

    A capital letter begins a proper name, unless it begins a sentence. A word with a capital or a
    digit after its first letter is a name anywhere: `NASA`, `LOGT11`.
    """
    found = [
        each.span() for pattern in (_LINEAR_VALUE, _OTHER_QUOTE) for each in pattern.finditer(text)
    ]
    found += _find_names(text)
    ranges: list[TextRange] = []
    for begin, end in sorted(found, key=lambda each: (each[0], -each[1])):
        if not ranges or begin >= ranges[-1][1]:
            ranges.append((begin, end))
    return ranges


def _find_names(text: str) -> list[TextRange]:
    names: list[TextRange] = []
    continued: int | None = None  # Where a word that continues the last name would follow
    for word in _WORD.finditer(text):
        begin, end = word.span()
        follows = continued is not None and text[continued:begin] == " "
        if _is_name(text, word):
            names.append((names.pop()[0] if follows else begin, end))
            continued = end
        else:
            continued = end if follows and word[0] in _NAME_JOINTS else None
    return names


def _is_name(text: str, word: re.Match[str]) -> bool:
    first, rest = word[0][0], word[0][1:]
    if not first.isupper() or word[0].replace("\u2019", "'") in _NOT_NAMES:
        return False
    if any(each.isupper() or each.isdigit() for each in rest):
        return True
    before = text[: word.start()].rstrip(" \t\"'`(\u201c\u201e\u2018\u00ab")
    return bool(before) and before[-1] not in ".!?…\n"


def _shorten_counting_answer(question: str, answer: str) -> str | None:
    """Return a short answer whole, or the beginning of one that counts what was asked for."""
    if len(answer) <= MAX_BRIEF_CHARACTERS:
        return " ".join(answer.split())
    prose = "\n".join(takewhile(lambda line: not LIST_ITEM.match(line), answer.split("\n")))
    begun = " ".join(prose[: max(_find_count_ends(prose, question), default=0)].split())
    return f"{begun} …" if 0 < len(begun) <= MAX_BRIEF_CHARACTERS else None


def _find_count_ends(prose: str, question: str) -> Iterator[int]:
    """Yield the ends of the sentences that count a noun of the question."""
    values, nouns = (
        _VALUE.findall(question),
        {_strip_plural(noun) for noun in _NOUN.findall(question)},
    )
    for count in _COUNT.finditer(prose):
        if count[1] not in values and _strip_plural(count[2]) in nouns:
            yield count.end(3)


def _strip_plural(noun: str) -> str:
    return noun.casefold().rstrip("s")


def _shorten_any_answer(question: str, answer: str) -> str:
    """Return what a counting answer is shortened to, and the lead of any other."""
    return _shorten_counting_answer(question, answer) or _find_lead(answer)


def _find_lead(answered: str) -> str:
    """Return the prose of an answer up to its first figure's sentence, and how many rows it has."""
    lines = answered.split("\n")
    rules = sum(bool(_TABLE_RULE.match(line)) for line in lines)
    listed = sum(bool(LIST_ITEM.match(line)) and not _TABLE_RULE.match(line) for line in lines)
    rows = max(0, listed - rules)
    prose = " ".join(" ".join(takewhile(lambda line: not LIST_ITEM.match(line), lines)).split())
    figure = re.search(r"\d", prose)
    ends = (end.end() for end in _SENTENCE_END.finditer(prose))
    lead = prose[: next((end for end in ends if figure is None or end > figure.start()), None)]
    if len(lead) > MAX_LEAD_CHARACTERS:
        lead = lead[:MAX_LEAD_CHARACTERS].rpartition(" ")[0] or lead[:MAX_LEAD_CHARACTERS]
    shortened = f"{lead} …" if lead != prose or (lead and not rows) else lead
    return " ".join(filter(None, (shortened, f"(rows: {rows})" if rows else "")))


REPEATS_RULES: Final[Mapping[str, RepeatsRule]] = {
    rule.name: rule
    for rule in (
        RepeatsRule("repeats-1", _find_plain_values, _shorten_counting_answer, shows_work=True),
        RepeatsRule("repeats-2", _find_values_and_names, _shorten_any_answer, shows_work=False),
    )
}
"""The rule's versions by name."""


def choose_repeats_rule(assembler: int) -> RepeatsRule:
    """Return the rule of a version of the assembler."""
    return REPEATS_RULES["repeats-1" if assembler == 1 else "repeats-2"]
