"""Condense the turns of a history view by rules whose results never change.

A rule sees recorded texts only, and the manifest names it, so that a condensed text can be rebuilt
from the log. `duplicates` leaves out paragraphs and whole turns that a later turn repeats.
`repeats` merges exchanges that ask the same question again and again: the merged exchange keeps all
values of the questions, and all values of answers that differ in nothing else. Other answers are
kept whole if they are short, or up to the sentence that counts what was asked for. An exchange with
any other answer is not condensed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby, takewhile
from typing import Final, assert_never, get_args

from turnlog.events.errors import Corrupt
from turnlog.events.model.manifest import CondenseRule
from turnlog.projections.blueprint.schema.history_specs import CondenseMode
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.history.history_selection import ExcludedTurns, merge_excluded
from turnlog.projections.prompt.history.planned_history import PlannedHistory
from turnlog.projections.prompt.history.turn_messages import (
    CondensedRun,
    TurnExchange,
    TurnMessages,
    build_turn_messages,
)

DUPLICATES_RULE: Final = "duplicates"
"""The rule that leaves out turns which a later turn repeats."""

_VIEW_RULES: Final = frozenset(get_args(CondenseMode))

REPEATED_MARKER: Final = "(said again below)"
"""The text that replaces a paragraph which a later turn repeats."""

MIN_REPEATED_CHARACTERS: Final = 60
"""Minimum length of a paragraph or turn that is worth leaving out."""

MIN_REPEATS: Final = 3
"""Minimum number of consecutive exchanges that count as one repeated question."""

MAX_BRIEF_CHARACTERS: Final = 80
"""Maximum length of an answer that is kept whole, and of the excerpt of a longer one."""

_MESSAGES_PER_PAIR: Final = 2
"""A question and its answer."""

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

_NOUN: Final = re.compile(r"[^\W\d_]{4,}")
"""A word that may be counted; shorter words are mostly function words."""

_COUNT: Final = re.compile(
    rf"(?<![\d.,$€£])(\d+(?:,\d{{3}})*) ({_NOUN.pattern})"
    rf"(?=((?:[^.!?:\n]|[.!?:](?=\S)){{0,{MAX_BRIEF_CHARACTERS}}}))"
)
"""A number, the noun it counts, and the rest of the sentence."""

_LIST_ITEM: Final = re.compile(r"\s*(?:[-*•|]|\d+[.)])\s")


def condense_run(
    condensed: CondenseRule, again: Sequence[int], run: Sequence[TurnMessages]
) -> TurnMessages:
    """Condense a run again, by its recorded rule; raises `Corrupt` if the rule does not apply."""
    match condensed:
        case "duplicates-1":
            return _replace_paragraphs(run[0], again)
        case "repeats-1":
            if any(len(said.messages) != _MESSAGES_PER_PAIR for said in run):
                raise Corrupt("repeats", "a turn is no question and its answer")
            return _merge_repeats(run)
        case _ as never:
            assert_never(never)


def condense_history(
    slot: PlannedHistory, condense: CondenseMode | None, counting: TokenCounter
) -> PlannedHistory:
    """Condense a history view as its blueprint says."""
    match condense:
        case None:
            return slot
        case "repeats":
            return replace(slot, exchanges=condense_repeats(slot.exchanges, counting, condense))
        case "duplicates":
            told, gone = condense_duplicates(slot.exchanges, counting)
            return replace(slot, exchanges=told, left_out=merge_excluded((*slot.left_out, *gone)))
        case _ as never:
            assert_never(never)


def condense_repeats(
    exchanges: Sequence[TurnExchange], counting: TokenCounter, rule: str
) -> tuple[TurnExchange, ...]:
    """Merge the exchanges of each repeated question where that is shorter."""
    told: list[TurnExchange] = []
    for run in _group_alike_exchanges(exchanges):
        said = _merge_repeats([each.content for each in run]) if len(run) >= MIN_REPEATS else None
        if said and said.characters < sum([each.content.characters for each in run]):
            told.append(
                _build_condensed_exchange(
                    run, said, CondensedRun(run[-1].turn, "repeats-1", rule), counting
                )
            )
        else:
            told += run
    return tuple(told)


def condense_duplicates(
    exchanges: Sequence[TurnExchange], counting: TokenCounter
) -> tuple[tuple[TurnExchange, ...], tuple[ExcludedTurns, ...]]:
    """Leave out what a later turn repeats; also return the turns that are left out entirely."""
    told: list[TurnExchange] = []
    gone: list[ExcludedTurns] = []
    whole, later = set[TurnMessages](), dict[tuple[str, str], int]()
    for exchange in reversed(exchanges):
        said = exchange.content
        # The role is part of the key: a user's words do not repeat an assistant's.
        paragraphs = [
            (text.role, each) for text in said.messages for each in _split_paragraphs(text.content)
        ]
        places = tuple(at for at, each in enumerate(paragraphs) if each in later)
        if said in whole and said.characters >= MIN_REPEATED_CHARACTERS:
            gone.append(
                ExcludedTurns(exchange.turn, exchange.turn, DUPLICATES_RULE, exchange.tokens)
            )
        elif places:
            by = max(later[paragraphs[at]] for at in places)
            retelling = CondensedRun(exchange.turn, "duplicates-1", DUPLICATES_RULE, places, by)
            told.append(
                _build_condensed_exchange(
                    [exchange], _replace_paragraphs(said, places), retelling, counting
                )
            )
        else:
            told.append(exchange)
        whole.add(said)
        said_here = {
            each: exchange.turn for each in paragraphs if len(each[1]) >= MIN_REPEATED_CHARACTERS
        }
        later = said_here | later
    return tuple(reversed(told)), tuple(reversed(gone))


def _build_condensed_exchange(
    run: Sequence[TurnExchange], said: TurnMessages, retelling: CondensedRun, counting: TokenCounter
) -> TurnExchange:
    tokens = sum(counting.count_tokens(each.content) for each in said.messages)
    # A trim step records its saving itself.
    saved = sum(each.tokens for each in run) - tokens if retelling.rule in _VIEW_RULES else 0
    return TurnExchange(run[0].turn, said, tokens, retelling, saved)


def _split_paragraphs(text: str) -> list[str]:
    """Split a text into lists and prose; joining the parts with line ends restores it."""
    lines = groupby(text.split("\n"), key=_classify_line)
    return ["\n".join(those) for _, those in lines]


def _classify_line(line: str) -> str:
    if not line.strip():
        return "blank"
    return "list" if _LIST_ITEM.match(line) else "prose"


def _replace_paragraphs(said: TurnMessages, places: Sequence[int]) -> TurnMessages:
    """Replace repeated paragraphs by one marker per run of them."""
    texts = {"user": "", "assistant": ""}
    begins = 0
    for message in said.messages:
        paragraphs = _split_paragraphs(message.content)
        numbered = enumerate(paragraphs, begins)
        stand = [REPEATED_MARKER if at in places else each for at, each in numbered]
        texts[message.role] = "\n".join([each for each, _ in groupby(stand)])
        begins += len(paragraphs)
    return build_turn_messages(texts["user"], texts["assistant"])


def _group_alike_exchanges(exchanges: Sequence[TurnExchange]) -> Iterator[list[TurnExchange]]:
    """Yield runs of adjacent exchanges that ask the same question; any other exchange alone."""
    for pattern, asking in groupby(exchanges, key=_find_question_pattern):
        run: list[TurnExchange] = []
        for exchange in asking:
            if run and (pattern is None or not _is_next_repeat(run[-1], exchange)):
                yield run
                run = []
            run.append(exchange)
        yield run


def _is_next_repeat(before: TurnExchange, after: TurnExchange) -> bool:
    return before.turn + 1 == after.turn and all(
        _shorten_answer(*(message.content for message in each.content.messages))
        for each in (before, after)
    )


def _find_question_pattern(exchange: TurnExchange) -> str | None:
    """Return the question with its values masked, or None if the turn is no plain exchange."""
    said = exchange.content.messages
    if exchange.condensed_run or len(said) != _MESSAGES_PER_PAIR:
        return None
    return _build_question_pattern(said[0].content)


@lru_cache(4_096)
def _build_question_pattern(asked: str) -> str | None:
    pattern = " ".join(_VALUE.sub("…", asked).split()).casefold()
    words = sum(any(map(str.isalpha, word)) for word in pattern.split())
    return pattern if words > 1 else None


def _merge_repeats(run: Sequence[TurnMessages]) -> TurnMessages:
    asked, answered = zip(*([each.content for each in said.messages] for said in run), strict=True)
    question = f"{_VALUE.sub('…', asked[0])} ({len(run)} times{_format_values(asked)})"
    if len({_VALUE.sub("…", answer) for answer in answered}) == 1:
        return build_turn_messages(
            question, f"{_VALUE.sub('…', answered[0])} (each time{_format_values(answered)})"
        )
    results = [_shorten_answer(*pair) or "" for pair in zip(asked, answered, strict=True)]
    return build_turn_messages(question, f"In turn: {'; '.join(results)}")


def _format_values(texts: Iterable[str]) -> str:
    values = [", ".join(_VALUE.findall(text)) for text in texts]
    return f", in turn with: {'; '.join(values)}" if any(values) else ""


def _shorten_answer(asked: str, answered: str) -> str | None:
    """Return a short answer whole, or the beginning of one that counts what was asked for."""
    if len(answered) <= MAX_BRIEF_CHARACTERS:
        return " ".join(answered.split())
    prose = "\n".join(takewhile(lambda line: not _LIST_ITEM.match(line), answered.split("\n")))
    begun = " ".join(prose[: max(_find_count_ends(prose, asked), default=0)].split())
    return f"{begun} …" if 0 < len(begun) <= MAX_BRIEF_CHARACTERS else None


def _find_count_ends(prose: str, asked: str) -> Iterator[int]:
    """Yield the ends of the sentences that count a noun of the question."""
    values, nouns = _VALUE.findall(asked), {_strip_plural(noun) for noun in _NOUN.findall(asked)}
    for count in _COUNT.finditer(prose):
        if count[1] not in values and _strip_plural(count[2]) in nouns:
            yield count.end(3)


def _strip_plural(noun: str) -> str:
    return noun.casefold().rstrip("s")
