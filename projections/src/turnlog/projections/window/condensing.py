"""Condensing: turns of a history told in short, each by a rule whose result never changes.

A rule is given recorded texts and nothing else, and a manifest names it, so that what was said in
short reads back from the log like anything that was said word for word. `duplicates` leaves out
paragraphs and whole turns that are said again later. `repeats` makes one exchange of a question
that was asked over and over: it keeps every value it was asked with, and all values of answers that
are alike but for those. Of other answers it says nothing in words of its own: a brief one stands as
it is, a long one as far as it counts what was asked for; one that does not is not told in short.
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
"""The rule by which turns are left out that are said again later."""
_WORDS: Final = frozenset(get_args(Condense))
AGAIN: Final = "(said again below)"
"""What stands for a paragraph that a later turn says again."""
LONG: Final = 60
"""Characters from which on a paragraph or a turn is worth leaving out."""
FEWEST: Final = 3
"""Exchanges in a row from which on one question counts as asked over and over."""
BRIEF: Final = 80
"""Characters up to which an answer stands as it is, and its beginning where it is longer."""
_PAIR: Final = 2
"""Messages of a question and its answer."""
_MONTH: Final = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sep(?:t|tember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b"
)
_VALUE: Final = re.compile(
    # What a value can begin with is looked for first, since most of a text is none
    r"(?=[\"“\d$€£ADFJMNOS])(?:\"[^\"\n]+\"|“[^”\n]+”"
    r"|\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
    rf"|\d{{1,2}} {_MONTH}(?: \d{{4}})?|\b{_MONTH} \d{{1,2}}(?:, \d{{4}})?\b"
    r"|[$€£] ?\d+(?:[.,]\d+)*|\d+(?:[.,]\d+)*%?)"
)
"""A quoted text, a date, an amount of money or a number."""
_NOUN: Final = re.compile(r"[^\W\d_]{4,}")
"""A word that may be counted; shorter ones mostly stand between others."""
_COUNT: Final = re.compile(
    rf"(?<![\d.,$€£])(\d+(?:,\d{{3}})*) ({_NOUN.pattern})"
    rf"(?=((?:[^.!?:\n]|[.!?:](?=\S)){{0,{BRIEF}}}))"
)
"""A number, what it counts, and what is left of the sentence."""
_LISTED: Final = re.compile(r"\s*(?:[-*•|]|\d+[.)])\s")


def retold(condensed: Condensed, again: Sequence[int], run: Sequence[Spoken]) -> Spoken:
    """Tell a run in short once more; raises `Corrupt` where its turns are none to tell so."""
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
    """Tell a view in short, by the word of its author."""
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
    """Make one exchange of each question that was asked over and over, where that is shorter."""
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
    """Leave out what is said again later; gives also the turns of which nothing is left."""
    told: list[Exchange] = []
    gone: list[LeftOut] = []
    whole, later = set[Spoken](), dict[tuple[str, str], int]()
    for exchange in reversed(exchanges):
        said = exchange.said
        # The words of one are no place to look for those of the other
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
    # What a step of a ladder saves is told with the step
    saved = sum(each.tokens for each in run) - tokens if retelling.rule in _WORDS else 0
    return Exchange(run[0].turn, said, tokens, retelling, saved)


def _paragraphs(text: str) -> list[str]:
    """Take a text apart into lists and what stands between; joined by line ends it is whole."""
    lines = groupby(text.split("\n"), key=_kind)
    return ["\n".join(those) for _, those in lines]


def _kind(line: str) -> str:
    if not line.strip():
        return "blank"
    return "list" if _LISTED.match(line) else "prose"


def _without(said: Spoken, places: Sequence[int]) -> Spoken:
    """Put a word in the place of the paragraphs that are said again; none stands twice in a row."""
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
    """Give runs of neighbours that ask one question, and everything else one by one."""
    for pattern, asking in groupby(exchanges, key=_question):
        run: list[Exchange] = []
        for exchange in asking:
            if run and (pattern is None or not _follows(run[-1], exchange)):
                yield run
                run = []
            run.append(exchange)
        yield run


def _follows(before: Exchange, after: Exchange) -> bool:
    """Tell whether one turn is the next after another, and both results can be told in short."""
    return before.turn + 1 == after.turn and all(
        _result(*(message.content for message in each.said.messages)) for each in (before, after)
    )


def _question(exchange: Exchange) -> str | None:
    """Give what is asked, whatever the values; none where nothing was asked and answered."""
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
    """Make one exchange of several that ask one question."""
    asked, answered = zip(*([each.content for each in said.messages] for said in run), strict=True)
    question = f"{_VALUE.sub('…', asked[0])} ({len(run)} times{_values(asked)})"
    if len({_VALUE.sub("…", answer) for answer in answered}) == 1:
        return spoken(question, f"{_VALUE.sub('…', answered[0])} (each time{_values(answered)})")
    results = [_result(*pair) or "" for pair in zip(asked, answered, strict=True)]
    return spoken(question, f"In turn: {'; '.join(results)}")


def _values(texts: Iterable[str]) -> str:
    """Give the values of texts that are alike but for those."""
    values = [", ".join(_VALUE.findall(text)) for text in texts]
    return f", in turn with: {'; '.join(values)}" if any(values) else ""


def _result(asked: str, answered: str) -> str | None:
    """Give an answer where it is brief, or its beginning where that counts what was asked for."""
    if len(answered) <= BRIEF:
        return " ".join(answered.split())
    prose = "\n".join(takewhile(lambda line: not _LISTED.match(line), answered.split("\n")))
    begun = " ".join(prose[: max(_counts(prose, asked), default=0)].split())
    return f"{begun} …" if 0 < len(begun) <= BRIEF else None


def _counts(prose: str, asked: str) -> Iterator[int]:
    """Give the ends of the sentences that count what a question asks for."""
    values, nouns = _VALUE.findall(asked), {_one(noun) for noun in _NOUN.findall(asked)}
    for count in _COUNT.finditer(prose):
        if count[1] not in values and _one(count[2]) in nouns:
            yield count.end(3)


def _one(noun: str) -> str:
    return noun.casefold().rstrip("s")
