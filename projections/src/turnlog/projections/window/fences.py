"""Fences: what sets the layers of a message apart, and how a text is kept from forging one.

A line imitates a fence when a reader could take it for one: whatever stands between its letters
that nobody sees, in whatever width they are written, whichever layer it names. Such a line is
indented by one blank. Nothing else is ever changed.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import groupby
from typing import Final
from unicodedata import category, normalize

from turnlog.projections.blueprint.form import Form

_NAME: Final = re.compile(r"\{(?:LAYER|layer)\}")
_UNSEEN: Final = frozenset("CMZ")
"""Categories that a reader does not see: controls and formats, marks, separators."""
_UNSEEN_ASCII: Final = dict.fromkeys((*range(0x21), 0x7F))
"""The same within ASCII, which most lines are."""


# Layers are few, and their fences are written at every step of every call
@lru_cache(1_024)
def fence(template: str, layer: str) -> str:
    """Write the fence of a layer."""
    return template.replace("{LAYER}", layer.upper()).replace("{layer}", layer)


def opening(form: Form, layer: str) -> str:
    """What stands above a layer; nothing where the form has no fences."""
    return fence(form.open, layer) + "\n" if form.open else ""


def closing(form: Form, layer: str) -> str:
    """What stands below it."""
    return "\n" + fence(form.close, layer) if form.close else ""


def imitations(form: Form, text: str) -> tuple[int, ...]:
    """Give where the lines of a text begin that imitate a fence of this form."""
    pattern = _pattern(form.open, form.close)
    if pattern is None or pattern[0] not in normalize("NFKC", text).casefold():
        return ()
    found: list[int] = []
    begins = 0
    for line in text.splitlines(keepends=True):
        if pattern[1].fullmatch(_seen(line)):
            found.append(begins)
        begins += len(line)
    return tuple(found)


def indented(text: str, places: tuple[int, ...]) -> str:
    """Put a blank in each of these places."""
    ends = (*places[1:], len(text))
    lines = (f" {text[begin:end]}" for begin, end in zip(places, ends, strict=False))
    return text[: places[0]] + "".join(lines) if places else text


# Forms are few, and each is asked for every text of every call
@cache
def _pattern(*templates: str) -> tuple[str, re.Pattern[str]] | None:
    """Give a character every fence begins with, and what a line of one looks like."""
    written = [template for template in templates if template]
    if not written:
        return None
    looks = "|".join(_looks(template) for template in written)
    first = {_seen(_NAME.sub("", template))[:1] for template in written}
    return (first.pop() if len(first) == 1 else ""), re.compile(looks)


def _looks(template: str) -> str:
    """Spell what imitates a fence: any name, and signs repeated however often."""
    between = [_repeated(_seen(literal)) for literal in _NAME.split(template)]
    return r"[\w-]*".join(between)


def _repeated(literal: str) -> str:
    runs = ((sign, len(list(run))) for sign, run in groupby(literal))
    return "".join(
        re.escape(sign) * length if sign.isalnum() else f"{re.escape(sign)}+"
        for sign, length in runs
    )


def _seen(line: str) -> str:
    """Give what a reader sees of a line, all letters and signs being alike."""
    if line.isascii():
        return line.translate(_UNSEEN_ASCII).casefold()
    plain = normalize("NFKC", line).casefold()
    return "".join(each for each in plain if category(each)[0] not in _UNSEEN)
