"""Condensed history: paragraphs that a later turn repeats, and one question asked repeatedly.

A bundle's `verify.py` has this module in it, so it needs nothing but Python's standard library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any

MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sep(?:t|tember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b"
)
VALUE = re.compile(
    r"\"[^\"\n]+\"|“[^”\n]+”|\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
    rf"|\d{{1,2}} {MONTH}(?: \d{{4}})?|\b{MONTH} \d{{1,2}}(?:, \d{{4}})?\b"
    r"|[$€£] ?\d+(?:[.,]\d+)*|\d+(?:[.,]\d+)*%?"
)
LISTED = re.compile(r"\s*(?:[-*•|]|\d+[.)])\s")
BRIEF, MAX_LEAD = 80, 160
LINEAR_VALUE = re.compile(VALUE.pattern.replace("“[^”", "“[^“”"))
QUOTED = re.compile(r"(?<!\w)'[^'\n]+'(?!\w)|„[^„“”\n]+[“”]|«[^«»\n]+»|`[^`\n]+`")
WORD = re.compile(r"[^\W_][\w'\u2019-]*")
JOINTS = {"da", "de", "del", "den", "der", "di", "do", "du", "la", "le", "of", "the", "van", "von"}
NOT_NAMES = {"I", "I'm", "I'd", "I'll", "I've"}
OPENINGS = " \t\"'`(\u201c\u201e\u2018\u00ab"
RULED = re.compile(r"\s*\|[\s:|-]+\Z")
SENTENCE_END = re.compile(r"[.!?…](?=\s|\Z)")
NOUN = re.compile(r"[^\W\d_]{4,}")
COUNT = re.compile(
    rf"(?<![\d.,$€£])(\d+(?:,\d{{3}})*) ({NOUN.pattern})"
    rf"(?=((?:[^.!?:\n]|[.!?:](?=\S)){{0,{BRIEF}}}))"
)
WORK_RESULT = re.compile(r"^.*(?:\n  .*)*", re.MULTILINE)
UNANSWERED = re.compile(r".*\n  (?:failed|lost|refused): ")


def condense_run(source: Mapping[str, Any], run: list[list[str]]) -> list[list[str]]:
    """Condense the texts of a run of history by the rule that its source names."""
    if source.get("condensed") == "duplicates-1":
        return [drop_repeats(run[0], source["again"])]
    if source.get("condensed") == "repeats-1":
        return [merge_repeats(run, find_values, shorten_answer)]
    if source.get("condensed") == "repeats-2":
        return [merge_repeats(run, find_values_and_names, shorten_any_answer)]
    return run


def drop_results(work: str) -> str:
    """Leave the results of tools that answered out of how a turn was worked out."""
    plan, heading, results = f"\n{work}".rpartition("\nTools gave:\n")
    if not heading:
        return work
    unanswered = [each for each in WORK_RESULT.findall(results) if UNANSWERED.match(each)]
    left = ["Tools gave:", *unanswered] if unanswered else []
    return "\n".join(filter(None, (plan[1:], *left)))


def drop_repeats(texts: Sequence[str], again: Sequence[int]) -> list[str]:
    shortened, begins = list[str](), 0
    for text in texts:
        # A missing text has no paragraphs and must not shift the paragraph numbers of the other.
        kinds = groupby(text.split("\n"), classify_line) if text else ()
        paragraphs = ["\n".join(lines) for _, lines in kinds]
        numbered = enumerate(paragraphs, begins)
        marked = ["(said again below)" if at in again else each for at, each in numbered]
        shortened.append("\n".join(each for each, _ in groupby(marked)))
        begins += len(paragraphs)
    return shortened


def classify_line(line: str) -> str:
    if LISTED.match(line):
        return "list"
    return "prose" if line.strip() else "blank"


def merge_repeats(
    run: Sequence[Sequence[str]],
    find: Callable[[str], list[tuple[int, int]]],
    shorten: Callable[[str, str], str],
) -> list[str]:
    def mask(text: str) -> str:
        for begin, end in reversed(find(text)):
            text = f"{text[:begin]}…{text[end:]}"
        return text

    def format_values(texts: Iterable[str]) -> str:
        values = [", ".join(text[begin:end] for begin, end in find(text)) for text in texts]
        return f", in turn with: {'; '.join(values)}" if any(values) else ""

    questions, answers = zip(*run, strict=True)
    if len(run) == 1:
        return [questions[0], shorten(questions[0], answers[0]) or answers[0]]
    question = f"{mask(questions[0])} ({len(run)} times{format_values(questions)})"
    if len({mask(answer) for answer in answers}) == 1:
        return [question, f"{mask(answers[0])} (each time{format_values(answers)})"]
    return [question, f"In turn: {'; '.join(shorten(*pair) for pair in run)}"]


def find_values(text: str) -> list[tuple[int, int]]:
    return [found.span() for found in VALUE.finditer(text)]


def find_values_and_names(text: str) -> list[tuple[int, int]]:
    """Find values, quoted texts and proper names; of two that overlap, the first and longer."""
    values = [found.span() for each in (LINEAR_VALUE, QUOTED) for found in each.finditer(text)]
    ranges = [*values, *iterate_names(text)]
    kept, place = list[tuple[int, int]](), 0
    for begin, end in sorted(ranges, key=lambda each: (each[0], -each[1])):
        if begin >= place:
            kept.append((begin, end))
            place = end
    return kept


def iterate_names(text: str) -> Iterator[tuple[int, int]]:
    """Yield the proper names of a text; a small word between two capitals belongs to the name."""
    words = [(found, is_name(text, found)) for found in WORD.finditer(text)]
    at = 0
    while at < len(words):
        first, named = words[at]
        last, at = first, at + 1
        ahead = at
        while named and ahead < len(words):
            word, is_part = words[ahead]
            if text[words[ahead - 1][0].end() : word.start()] != " ":
                break
            if not is_part and word[0] not in JOINTS:
                break
            ahead += 1
            if is_part:
                last, at = word, ahead
        if named:
            yield first.start(), last.end()


def is_name(text: str, word: re.Match[str]) -> bool:
    if not word[0][0].isupper() or word[0].replace("\u2019", "'") in NOT_NAMES:
        return False
    before = text[: word.start()].rstrip(OPENINGS)
    inner = any(each.isupper() or each.isdigit() for each in word[0][1:])
    return inner or (before != "" and before[-1] not in ".!?…\n")


def shorten_answer(question: str, answer: str) -> str:
    """Return a short answer whole, and a long one up to its last count of what was asked."""
    if len(answer) <= BRIEF:
        return " ".join(answer.split())
    prose = "\n".join(takewhile(lambda line: not LISTED.match(line), answer.split("\n")))
    values = VALUE.findall(question)
    nouns = {noun.casefold().rstrip("s") for noun in NOUN.findall(question)}
    counts = [each for each in COUNT.finditer(prose) if each[2].casefold().rstrip("s") in nouns]
    ends = [each.end(3) for each in counts if each[1] not in values]
    return " ".join(prose[: max(ends, default=0)].split()) + " …"


def shorten_any_answer(question: str, answer: str) -> str:
    """Return what an answer is shortened to, or its lead where that would be nothing or long."""
    short = shorten_answer(question, answer)
    begun = short if len(answer) <= BRIEF else short.removesuffix(" …")
    return short if 0 < len(begun) <= BRIEF else find_lead(answer)


def find_lead(answered: str) -> str:
    """Return the prose up to the sentence with the first figure, and the number of rows."""
    lines = answered.split("\n")
    heads = sum(bool(RULED.match(line)) for line in lines)
    rows = sum(bool(LISTED.match(line) and not RULED.match(line)) for line in lines) - heads
    prose = " ".join(" ".join(takewhile(lambda line: not LISTED.match(line), lines)).split())
    after = figure.start() if (figure := re.search(r"\d", prose)) else -1
    ends = [found.end() for found in SENTENCE_END.finditer(prose) if found.end() > after]
    lead = prose[: ends[0]] if ends else prose
    if len(lead) > MAX_LEAD:
        lead = lead[:MAX_LEAD].rpartition(" ")[0] or lead[:MAX_LEAD]
    more = " …" if lead != prose or (lead and rows <= 0) else ""
    return " ".join(filter(None, (lead + more, f"(rows: {rows})" if rows > 0 else "")))
