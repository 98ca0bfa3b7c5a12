"""The safety check `topic_list`: a reply must not name a topic or term of a list.

It runs for every token of a reply, so it is a coroutine function, which needs no thread of its own:
only compiling a list and searching a long text run in one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pydantic import JsonValue

from turnlog.projections.blueprint.linear_patterns import LinearPattern, compile_pattern
from turnlog.services.platform.concurrency import run_in_thread, run_text_work


async def find_listed_topic(text: str, topics: JsonValue) -> str | None:
    """Return why a text is refused: the first topic or term that it names.

    `topics` is a list, or lists by locale, all of which apply. Case, accents, and up to three signs
    or none between the words of a term do not matter; a term with a final `*` is the beginning of a
    word.
    """
    listed = topics.values() if isinstance(topics, dict) else [topics]
    terms = tuple(str(each) for group in listed if isinstance(group, list) for each in group)
    groups = await _load_groups(terms)
    plain = await run_text_work(partial(_remove_accents, text), len(text))
    group = await run_text_work(partial(_find_matching_group, plain, groups), len(plain))
    # Which of its terms it is takes a pattern of each, and is asked once at the end of a reply.
    return f"it names {await run_in_thread(partial(_find_term, plain, group))}" if group else None


@dataclass(frozen=True, slots=True)
class _TermGroup:
    """Some terms, and one pattern that finds any of them."""

    terms: tuple[str, ...]
    pattern: LinearPattern


_MAX_LISTS: Final = 64
_compiled_lists: dict[tuple[str, ...], tuple[_TermGroup, ...]] = {}
"""The lists that were compiled last, at most `_MAX_LISTS` of them."""


async def _load_groups(terms: tuple[str, ...]) -> tuple[_TermGroup, ...]:
    groups = _compiled_lists.get(terms)
    if groups is None:
        groups = await run_in_thread(partial(_compile_terms, terms))
        if len(_compiled_lists) >= _MAX_LISTS:
            _compiled_lists.pop(next(iter(_compiled_lists)), None)
        _compiled_lists[terms] = groups
    return groups


def _find_matching_group(plain: str, groups: Sequence[_TermGroup]) -> _TermGroup | None:
    return next((group for group in groups if group.pattern.has_match(plain)), None)


def _find_term(plain: str, group: _TermGroup) -> str:
    found = (each for each in group.terms if _compile_term_group((each,)).has_match(plain))
    return next(found, group.terms[0])


_GROUPED_CHARACTERS: Final = 250
"""Characters of the terms of one pattern. Together they compile five times as fast as one by one; a
pattern of all terms of a long list would be too large to search a slice quickly at the worst."""


def _compile_terms(terms: tuple[str, ...]) -> tuple[_TermGroup, ...]:
    """Compile the terms that have words, in their order; a millisecond for two of them."""
    groups: list[list[str]] = []
    room = 0
    for term in filter(_write_term_pattern, terms):
        if len(term) > room:
            groups.append([])
            room = _GROUPED_CHARACTERS
        groups[-1].append(term)
        room -= len(term)
    return tuple(_TermGroup((*group,), _compile_term_group((*group,))) for group in groups)


def _compile_term_group(terms: Sequence[str]) -> LinearPattern:
    return compile_pattern(rf"(?i)\b(?:{'|'.join(map(_write_term_pattern, terms))})\b")


def _write_term_pattern(term: str) -> str:
    """Return the pattern of a term; an empty one if it has no words."""
    words = _WORD_PATTERN.findall(_remove_accents(term))
    end = r"\w*" if words and term.endswith("*") else ""
    return r"[\W_]{0,3}".join(map(re.escape, words)) + end


_WORD_PATTERN: Final = re.compile(r"[^\W_]+")


class _AccentTable(dict[int, int | None]):
    """What becomes of a character by its number: nothing of accents and of invisible ones."""

    def __missing__(self, number: int) -> int | None:
        becomes = None if unicodedata.category(chr(number)) in {"Mn", "Cf"} else number
        if len(self) < _KNOWN_CHARACTERS:
            self[number] = becomes
        return becomes


_KNOWN_CHARACTERS: Final = 5_000
"""Characters that the table keeps, more than the alphabets of one conversation have."""


_ACCENT_TABLE: Final = _AccentTable()


def _remove_accents(text: str) -> str:
    """Return a text without accents and invisible characters: `ž` as `z`."""
    return unicodedata.normalize("NFKD", text).translate(_ACCENT_TABLE)
