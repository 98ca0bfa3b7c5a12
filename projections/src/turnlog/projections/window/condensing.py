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
from turnlog.events.manifest import Condensed
from turnlog.projections.blueprint.views import Condense
from turnlog.projections.window.counting import Counting
from turnlog.projections.window.history import LeftOut, merged
from turnlog.projections.window.plan import HistorySlot
from turnlog.projections.window.spoken import Exchange, Retelling, Spoken, spoken

DUPLICATES: Final = "duplicates"
"""The rule that leaves out turns which a later turn repeats."""
_WORDS: Final = frozenset(get_args(Condense))
AGAIN: Final = "(said again below)"
"""The text that replaces a paragraph which a later turn repeats."""
LONG: Final = 60
"""Minimum length of a paragraph or turn that is worth leaving out."""
FEWEST: Final = 3
"""Minimum number of consecutive exchanges that count as one repeated question."""
BRIEF: Final = 80
"""Maximum length of an answer that is kept whole, and of the excerpt of a longer one."""
_PAIR: Final = 2
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
    rf"(?=((?:[^.!?:\n]|[.!?:](?=\S)){{0,{BRIEF}}}))"
)
"""A number, the noun it counts, and the rest of the sentence."""
_LISTED: Final = re.compile(r"\s*(?:[-*•|]|\d+[.)])\s")


def retold(condensed: Condensed, again: Sequence[int], run: Sequence[Spoken]) -> Spoken:
    """Condense a run again, by its recorded rule; raises `Corrupt` if the rule does not apply."""
    match condensed:
        case "duplicates-1":
            return _without(run[0], again)
        case "repeats-1":
            if any(len(said.messages) != _PAIR for said in run):
                raise Corrupt("repeats", "a turn is no question and its answer")
            return _in_one(run)
        case _ as never:
            assert_never(never)


def in_short(slot: HistorySlot, condense: Condense | None, counting: Counting) -> HistorySlot:
    """Condense a history view as its blueprint says."""
    match condense:
        case None:
            return slot
        case "repeats":
            return replace(slot, exchanges=repeats_told(slot.exchanges, counting, condense))
        case "duplicates":
            told, gone = duplicates_told(slot.exchanges, counting)
            return replace(slot, exchanges=told, left_out=merged((*slot.left_out, *gone)))
        case _ as never:
            assert_never(never)


def repeats_told(
    exchanges: Sequence[Exchange], counting: Counting, rule: str
) -> tuple[Exchange, ...]:
    """Merge the exchanges of each repeated question where that is shorter."""
    told: list[Exchange] = []
    for run in _alike(exchanges):
        said = _in_one([each.said for each in run]) if len(run) >= FEWEST else None
        if said and said.characters < sum([each.said.characters for each in run]):
            told.append(_shorter(run, said, Retelling(run[-1].turn, "repeats-1", rule), counting))
        else:
            told += run
    return tuple(told)


def duplicates_told(
    exchanges: Sequence[Exchange], counting: Counting
) -> tuple[tuple[Exchange, ...], tuple[LeftOut, ...]]:
    """Leave out what a later turn repeats; also return the turns that are left out entirely."""
    told: list[Exchange] = []
    gone: list[LeftOut] = []
    whole, later = set[Spoken](), dict[tuple[str, str], int]()
    for exchange in reversed(exchanges):
        said = exchange.said
        # The role is part of the key: a user's words do not repeat an assistant's.
        paragraphs = [
            (text.role, each) for text in said.messages for each in _paragraphs(text.content)
        ]
        places = tuple(at for at, each in enumerate(paragraphs) if each in later)
        if said in whole and said.characters >= LONG:
            gone.append(LeftOut(exchange.turn, exchange.turn, DUPLICATES, exchange.tokens))
        elif places:
            by = max(later[paragraphs[at]] for at in places)
            retelling = Retelling(exchange.turn, "duplicates-1", DUPLICATES, places, by)
            told.append(_shorter([exchange], _without(said, places), retelling, counting))
        else:
            told.append(exchange)
        whole.add(said)
        said_here = {each: exchange.turn for each in paragraphs if len(each[1]) >= LONG}
        later = said_here | later
    return tuple(reversed(told)), tuple(reversed(gone))


def _shorter(
    run: Sequence[Exchange], said: Spoken, retelling: Retelling, counting: Counting
) -> Exchange:
    tokens = sum(counting.count(each.content) for each in said.messages)
    # A trim step records its saving itself.
    saved = sum(each.tokens for each in run) - tokens if retelling.rule in _WORDS else 0
    return Exchange(run[0].turn, said, tokens, retelling, saved)


def _paragraphs(text: str) -> list[str]:
    """Split a text into lists and prose; joining the parts with line ends restores it."""
    lines = groupby(text.split("\n"), key=_kind)
    return ["\n".join(those) for _, those in lines]


def _kind(line: str) -> str:
    if not line.strip():
        return "blank"
    return "list" if _LISTED.match(line) else "prose"


def _without(said: Spoken, places: Sequence[int]) -> Spoken:
    """Replace repeated paragraphs by one marker per run of them."""
    texts = {"user": "", "assistant": ""}
    begins = 0
    for message in said.messages:
        paragraphs = _paragraphs(message.content)
        numbered = enumerate(paragraphs, begins)
        stand = [AGAIN if at in places else each for at, each in numbered]
        texts[message.role] = "\n".join([each for each, _ in groupby(stand)])
        begins += len(paragraphs)
    return spoken(texts["user"], texts["assistant"])


def _alike(exchanges: Sequence[Exchange]) -> Iterator[list[Exchange]]:
    """Yield runs of adjacent exchanges that ask the same question; any other exchange alone."""
    for pattern, asking in groupby(exchanges, key=_question):
        run: list[Exchange] = []
        for exchange in asking:
            if run and (pattern is None or not _follows(run[-1], exchange)):
                yield run
                run = []
            run.append(exchange)
        yield run


def _follows(before: Exchange, after: Exchange) -> bool:
    return before.turn + 1 == after.turn and all(
        _result(*(message.content for message in each.said.messages)) for each in (before, after)
    )


def _question(exchange: Exchange) -> str | None:
    """Return the question with its values masked, or None if the turn is no plain exchange."""
    said = exchange.said.messages
    if exchange.retelling or len(said) != _PAIR:
        return None
    return _pattern(said[0].content)


@lru_cache(4_096)
def _pattern(asked: str) -> str | None:
    pattern = " ".join(_VALUE.sub("…", asked).split()).casefold()
    words = sum(any(map(str.isalpha, word)) for word in pattern.split())
    return pattern if words > 1 else None


def _in_one(run: Sequence[Spoken]) -> Spoken:
    asked, answered = zip(*([each.content for each in said.messages] for said in run), strict=True)
    question = f"{_VALUE.sub('…', asked[0])} ({len(run)} times{_values(asked)})"
    if len({_VALUE.sub("…", answer) for answer in answered}) == 1:
        return spoken(question, f"{_VALUE.sub('…', answered[0])} (each time{_values(answered)})")
    results = [_result(*pair) or "" for pair in zip(asked, answered, strict=True)]
    return spoken(question, f"In turn: {'; '.join(results)}")


def _values(texts: Iterable[str]) -> str:
    values = [", ".join(_VALUE.findall(text)) for text in texts]
    return f", in turn with: {'; '.join(values)}" if any(values) else ""


def _result(asked: str, answered: str) -> str | None:
    """Return a short answer whole, or the beginning of one that counts what was asked for."""
    if len(answered) <= BRIEF:
        return " ".join(answered.split())
    prose = "\n".join(takewhile(lambda line: not _LISTED.match(line), answered.split("\n")))
    begun = " ".join(prose[: max(_counts(prose, asked), default=0)].split())
    return f"{begun} …" if 0 < len(begun) <= BRIEF else None


def _counts(prose: str, asked: str) -> Iterator[int]:
    """Yield the ends of the sentences that count a noun of the question."""
    values, nouns = _VALUE.findall(asked), {_one(noun) for noun in _NOUN.findall(asked)}
    for count in _COUNT.finditer(prose):
        if count[1] not in values and _one(count[2]) in nouns:
            yield count.end(3)


def _one(noun: str) -> str:
    return noun.casefold().rstrip("s")
