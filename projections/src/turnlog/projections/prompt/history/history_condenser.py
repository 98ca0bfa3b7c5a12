"""Condense the turns of a history view by rules whose results never change.

A rule sees recorded texts only, and the manifest names it with its version, so that a condensed
text can be rebuilt from the log. `duplicates` leaves out paragraphs and whole turns that a later
turn repeats. `repeats` merges exchanges that ask the same question again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final, assert_never

from turnlog.events.errors import Corrupt
from turnlog.events.model.manifest import CondenseRule, MessageRole
from turnlog.events.model.turn_events import TurnRole
from turnlog.projections.blueprint.schema.history_specs import CondenseMode
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.history.excluded_turns import ExcludedTurns, merge_excluded
from turnlog.projections.prompt.history.planned_history import PlannedHistory
from turnlog.projections.prompt.history.repeated_questions import (
    LIST_ITEM,
    REPEATS_RULES,
    condense_repeats,
    merge_repeats,
)
from turnlog.projections.prompt.history.turn_messages import (
    CondensedRun,
    TurnExchange,
    TurnMessages,
    build_turn_messages,
)

DUPLICATES_RULE: Final = "duplicates"
"""The rule that leaves out turns which a later turn repeats."""

REPEATED_MARKER: Final = "(said again below)"
"""The text that replaces a paragraph which a later turn repeats."""

MIN_REPEATED_CHARACTERS: Final = 60
"""Minimum length of a paragraph or turn that is worth leaving out."""


def condense_run(
    condensed: CondenseRule, again: Sequence[int], run: Sequence[TurnMessages]
) -> TurnMessages:
    """Condense a run again, by its recorded rule; raises `Corrupt` if the rule does not apply.

    `results-1` is about the work of a turn, and the messages of its run are built by it.
    """
    match condensed:
        case "results-1":
            return run[0]
        case "duplicates-1":
            return _replace_paragraphs(run[0], again)
        case "repeats-1" | "repeats-2":
            if not all(turn.is_pair for turn in run):
                raise Corrupt("repeats", "a turn is no question and its answer")
            return merge_repeats(run, REPEATS_RULES[condensed])
        case _ as never:
            assert_never(never)


def condense_history(
    slot: PlannedHistory, condense: Sequence[CondenseMode], counting: TokenCounter
) -> PlannedHistory:
    """Condense a history view by each of these modes in turn."""
    for mode in condense:
        slot = _condense_slot(slot, mode, counting)
    return slot


def _condense_slot(
    slot: PlannedHistory, mode: CondenseMode, counting: TokenCounter
) -> PlannedHistory:
    match mode:
        case "repeats":
            return condense_slot_repeats(slot, counting, mode)
        case "duplicates":
            condensed, dropped = condense_duplicates(slot.exchanges, counting)
            return replace(
                slot, exchanges=condensed, left_out=merge_excluded((*slot.left_out, *dropped))
            )
        case _ as never:
            assert_never(never)


def condense_slot_repeats(slot: PlannedHistory, counting: TokenCounter, by: str) -> PlannedHistory:
    """Condense repeated questions, but never the latest messages that are to stay verbatim."""
    older = slot.count_older(slot.verbatim_messages)
    counted = slot.exchanges if slot.verbatim_repeats else slot.exchanges[:older]
    condensed = condense_repeats(
        exchanges=counted, counting=counting, rule=slot.repeats, by=by, older=older
    )
    return replace(slot, exchanges=(*condensed, *slot.exchanges[len(counted) :]))


def condense_duplicates(
    exchanges: Sequence[TurnExchange], counting: TokenCounter
) -> tuple[tuple[TurnExchange, ...], tuple[ExcludedTurns, ...]]:
    """Leave out what a later turn repeats; also return the turns that are left out entirely."""
    condensed: list[TurnExchange] = []
    dropped: list[ExcludedTurns] = []
    seen_contents, later = set[TurnMessages](), dict[tuple[str, str], int]()
    for exchange in reversed(exchanges):
        if exchange.is_repeated or exchange.media:
            condensed.append(exchange)
            continue
        content = exchange.content
        # The role is part of the key: a user's words do not repeat an assistant's.
        paragraphs = [
            (text.role, each)
            for text in content.messages
            for each in _split_paragraphs(text.content)
        ]
        places = tuple(at for at, each in enumerate(paragraphs) if each in later)
        if content in seen_contents and content.characters >= MIN_REPEATED_CHARACTERS:
            dropped.append(
                ExcludedTurns(exchange.turn, exchange.turn, DUPLICATES_RULE, exchange.tokens)
            )
        elif places and exchange.condensed_run is None:
            by = max(later[paragraphs[at]] for at in places)
            condensed_run = CondensedRun(
                last_turn=exchange.turn,
                condensed="duplicates-1",
                rule=DUPLICATES_RULE,
                again=places,
                later=by,
            )
            shorter = _replace_paragraphs(content, places)
            condensed.append(_build_shorter_exchange(exchange, shorter, condensed_run, counting))
        else:
            condensed.append(exchange)
        seen_contents.add(content)
        own_paragraphs = {
            each: exchange.turn for each in paragraphs if len(each[1]) >= MIN_REPEATED_CHARACTERS
        }
        later = own_paragraphs | later
    return tuple(reversed(condensed)), tuple(reversed(dropped))


def _build_shorter_exchange(
    exchange: TurnExchange,
    content: TurnMessages,
    condensed_run: CondensedRun,
    counting: TokenCounter,
) -> TurnExchange:
    tokens = sum(counting.count_tokens(each.content) for each in content.messages)
    return TurnExchange(
        turn=exchange.turn,
        content=content,
        tokens=tokens,
        condensed_run=condensed_run,
        saved=exchange.tokens - tokens,
    )


def _split_paragraphs(text: str) -> list[str]:
    """Split a text into lists and prose; joining the parts with line ends restores it."""
    lines = groupby(text.split("\n"), key=_classify_line)
    return ["\n".join(those) for _, those in lines]


def _classify_line(line: str) -> str:
    if not line.strip():
        return "blank"
    return "list" if LIST_ITEM.match(line) else "prose"


def _replace_paragraphs(content: TurnMessages, places: Sequence[int]) -> TurnMessages:
    """Replace repeated paragraphs by one marker per run of them."""
    texts: dict[MessageRole, str] = {}
    begins = 0
    for message in content.messages:
        paragraphs = _split_paragraphs(message.content)
        numbered = enumerate(paragraphs, begins)
        shortened = [REPEATED_MARKER if at in places else each for at, each in numbered]
        texts[message.role] = "\n".join([each for each, _ in groupby(shortened)])
        begins += len(paragraphs)
    role: TurnRole = "system" if "system" in texts else "user"
    return build_turn_messages(texts.get(role, ""), texts.get("assistant", ""), role)
