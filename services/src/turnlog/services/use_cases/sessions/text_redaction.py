"""Which part of a person's text a redaction withholds, and what stands instead.

A request names all of the text, what a pattern finds in it, or parts by their place. Events have
the places alone: a pattern may be the very words that are to be withheld.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Final, cast

import re2  # type: ignore[import-untyped]

from turnlog.contract.session_requests import RedactTurnRequest
from turnlog.events.content import get_plain_text
from turnlog.events.errors import Refused
from turnlog.events.model.redaction_events import OPERATOR_RULE, RedactedSpan
from turnlog.projections.blueprint.input_guard import replace_spans
from turnlog.projections.blueprint.personal_detail_finders import TextSpan
from turnlog.projections.session.fold.settled_turns import build_unknown_turn
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_commands import RedactText
from turnlog.projections.session_views.session_history import build_history
from turnlog.services.platform.concurrency import run_text_work
from turnlog.services.sessions.command_handler import CommandHandler

WITHHELD_WORDS: Final = "[withheld]"
"""What stands by default in place of a text, or of each part of it."""


async def build_text_redaction(
    handler: CommandHandler, state: SessionState, form: RedactTurnRequest
) -> RedactText:
    """Return the command that withholds what a request names of the text as it stands.

    Raises `Refused` if the pattern finds nothing, or if a part is not in the text.
    """
    text = await _load_standing_text(handler, state, form.turn)
    words = form.replacement or WITHHELD_WORDS
    spans = await _find_spans(text or "", form)
    # A turn without a text has other fields that are withheld.
    replaced = words if text is not None else ""
    return RedactText(
        turn=form.turn,
        reason=form.reason,
        rule=OPERATOR_RULE,
        replacement=replace_spans(text or "", spans, words) if spans else replaced,
        spans=tuple(RedactedSpan(begin=each.begin, end=each.end) for each in spans),
    )


def refuse_parts_of_reply(form: RedactTurnRequest) -> None:
    """Refuse a request that names a part of a reply, which is redacted as a whole."""
    for name in ("pattern", "spans"):
        if getattr(form, name) is not None:
            detail, fix = "a reply is redacted as a whole", "redact the text: `of` `text` or `turn`"
            raise Refused("invalid", detail, field=name, fix=fix)


async def _load_standing_text(
    handler: CommandHandler, state: SessionState, number: int
) -> str | None:
    """Return the text of a turn, or what stands instead; None if it was submitted without one."""
    events = await handler.load_turn_events(state, number)
    turn = next((each for each in build_history(events) if each.turn == number), None)
    if turn is None:
        raise build_unknown_turn(number)
    return get_plain_text(turn.text)


async def _find_spans(text: str, form: RedactTurnRequest) -> tuple[TextSpan, ...]:
    """Return the parts of a text that a request names; none of them if it names all of it."""
    if form.pattern is not None and form.spans is not None:
        detail = "the request names a pattern and parts by their place"
        raise Refused("invalid", detail, field="spans", fix="send one of the two")
    if form.pattern is not None:
        return await run_text_work(partial(find_matches, form.pattern, text), len(text))
    named = [(each.begin, each.end) for each in form.spans or ()]
    for at, (begin, end) in enumerate(named):
        if not begin < end <= len(text):
            what = f"the text of turn {form.turn} has {len(text)} characters"
            raise Refused("invalid", what, field=f"spans.{at}", fix="name a part of it")
    return merge_spans(named)


def find_matches(pattern: str, text: str) -> tuple[TextSpan, ...]:
    """Return what a pattern finds in a text; refuse one that cannot be used, or finds nothing."""
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError):
        detail, fix = "it is no regular expression of RE2", "write `(?i)word`, for example"
        raise Refused("invalid", detail, field="pattern", fix=fix) from None
    # The library has no types; its matches have the form of those of `re`.
    matches = cast("Iterable[re.Match[str]]", compiled.finditer(text))
    places = [found.span() for found in matches]
    if not any(begin < end for begin, end in places):
        detail = "the text has nothing that the pattern finds"
        raise Refused("no-match", detail, field="pattern", fix="write another pattern")
    return merge_spans((begin, end) for begin, end in places if begin < end)


def merge_spans(places: Iterable[tuple[int, int]]) -> tuple[TextSpan, ...]:
    """Return places in their order, those that overlap or touch as one."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(places):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return tuple(TextSpan(*place) for place in merged)
