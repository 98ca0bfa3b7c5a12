"""The messages of a turn, as every prompt that includes the turn contains them.

A turn appears in hundreds of prompts with the same words. Its messages are therefore built once per
wording and cached together with their digests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from sys import getsizeof
from typing import Final

from turnlog.events.content import Digest, compute_digest
from turnlog.events.errors import Corrupt
from turnlog.events.model.manifest import CondenseRule
from turnlog.events.model.turn_events import TurnRole
from turnlog.projections.blueprint.schema.history_specs import ReasoningMode
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.chat_request import ChatMessage
from turnlog.projections.prompt.planned_media import PlannedMedia, plan_media
from turnlog.projections.prompt.planned_reasoning import PlannedReasoning, plan_reply_reasoning
from turnlog.projections.session.state import SettledTurnRef
from turnlog.projections.session.text_refs import ReasoningRef, TextRef
from turnlog.projections.tools.result_condensation import add_result_texts, omit_answered_results

MAX_CACHED_BYTES: Final = 3_000
"""Maximum memory of a turn's texts, in bytes, for the turn to be cached."""

CACHE_SIZE: Final = 4_096
"""Number of cached turns.

That is 12 MB of text and as much of what digests are computed from, and at most 90 MB where JSON
escapes most characters.
"""

LISTED_RULE: Final = "results in a layer of their own"
"""The rule of a turn whose results are left out because a layer of the call lists them."""

_MESSAGES_PER_PAIR: Final = 2
"""A question and its answer."""


@dataclass(frozen=True, slots=True)
class TurnMessages:
    """The question and the answer of a turn, or the text of a turn of the system."""

    messages: tuple[ChatMessage, ...]
    characters: int
    """Length in code points."""
    digest_line: str
    """What the digest of a run is computed from: role and digest of each message, one a line."""

    @property
    def is_pair(self) -> bool:
        """Whether it is a question and its answer."""
        return len(self.messages) == _MESSAGES_PER_PAIR


@dataclass(frozen=True, slots=True, kw_only=True)
class CondensedRun:
    """How turns are condensed."""

    last_turn: int
    """The last condensed turn."""
    condensed: CondenseRule
    """The rule and its version, by which the text is rebuilt."""
    rule: str
    """Why it was condensed: an option of the view or a trim step."""
    again: tuple[int, ...] = ()
    """See `FromTurns.again`."""
    later: int | None = None
    """See `FromTurns.later`."""
    shows_work: bool = True
    """Whether the condensed texts include the work of the turns, in a view that shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnExchange:
    """The messages of a turn in a view, with their token count."""

    turn: int
    content: TurnMessages
    tokens: int
    condensed_run: CondensedRun | None = None
    """How one or several turns were condensed; None for a turn in its own words."""
    saved: int = 0
    """Tokens that condensing saved, unless a trim step records them."""
    spoken: TurnMessages | None = None
    """Question and reply alone, where `content` also shows the work; otherwise None."""
    media: tuple[PlannedMedia, ...] = ()
    """The pictures, recordings and files of the question, which is then the first message."""
    reasoning: PlannedReasoning | None = None
    """What the model reasoned before the reply, which is then the last message."""
    reasoning_tokens: int = 0
    """Tokens of what is sent of it."""

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """Its messages, with their media and what was reasoned."""
        messages = self._place_media() if self.media else self.content.messages
        if self.reasoning is None or not self.reasoning_text:
            return messages
        return (*messages[:-1], replace(messages[-1], reasoning=self.reasoning_text))

    def _place_media(self) -> tuple[ChatMessage, ...]:
        question, *others = self.content.messages
        length = len(question.content)
        placed = [each.place_in_message(min(each.ref.part.at, length)) for each in self.media]
        return (replace(question, media=tuple(placed)), *others)

    @property
    def reasoning_text(self) -> str:
        """What is sent of the reasoning; empty if nothing is."""
        return self.reasoning.text if self.reasoning else ""

    def leave_out_reasoning(self) -> TurnExchange:
        """Return the exchange without what the model reasoned."""
        return replace(self, reasoning=None, reasoning_tokens=0)

    @property
    def all_tokens(self) -> int:
        """Tokens of its texts and its media."""
        return self.tokens + sum([each.tokens for each in self.media])

    @property
    def is_repeated(self) -> bool:
        """Whether it is what a repeated question was condensed to."""
        return self.condensed_run is not None and self.condensed_run.condensed.startswith("repeats")

    @property
    def last_turn(self) -> int:
        """The last turn that it covers."""
        return self.condensed_run.last_turn if self.condensed_run else self.turn


def build_turn_messages(
    text: str, reply: str, role: TurnRole = "user", *, has_media: bool = False
) -> TurnMessages:
    """Return the messages of a turn; an empty text is no message, unless it has media."""
    if has_media and not text:
        return _build_turn_messages(text, reply, role, has_media=True)
    return (_build_cached_messages if _is_cacheable(text, reply) else _build_turn_messages)(
        text, reply, role
    )


def add_work(work: str, reply: str) -> str:
    """Put the description of how a turn was worked out before its reply."""
    return f"{work}\n\n{reply}"


def add_outcomes(outcomes: Sequence[str], reply: str) -> str:
    """Put the outcomes of tools, and their results, before a reply that may be empty."""
    left = add_result_texts(outcomes[0], outcomes[1:])
    return add_work(left, reply) if reply else left


def build_exchange(
    turn: int,
    text: str,
    reply: str,
    counting: TokenCounter,
    role: TurnRole = "user",
    *,
    has_media: bool = False,
) -> TurnExchange:
    """Return the messages of a turn with their token count, without that of its media."""
    if has_media and not text:
        return _build_exchange(
            turn=turn, text=text, reply=reply, counting=counting, role=role, has_media=True
        )
    made = _build_cached_exchange if _is_cacheable(text, reply) else _build_exchange
    return made(turn, text, reply, counting, role)


def _is_cacheable(text: str, reply: str) -> bool:
    return getsizeof(text) + getsizeof(reply) <= MAX_CACHED_BYTES


def _build_turn_messages(
    text: str, reply: str, role: TurnRole, *, has_media: bool = False
) -> TurnMessages:
    question = (ChatMessage(role, text),) if text or has_media else ()
    messages = (*question, ChatMessage("assistant", reply)) if reply else question
    lines = (f"{message.role} {message.digest}\n" for message in messages)
    return TurnMessages(messages, len(text) + len(reply), "".join(lines))


def _build_exchange(
    turn: int,
    text: str,
    reply: str,
    counting: TokenCounter,
    role: TurnRole,
    *,
    has_media: bool = False,
) -> TurnExchange:
    content = build_turn_messages(text, reply, role, has_media=has_media)
    return TurnExchange(
        turn=turn,
        content=content,
        tokens=sum(counting.count_tokens(each.content) for each in content.messages),
    )


_build_cached_messages: Final = lru_cache(CACHE_SIZE)(_build_turn_messages)

_build_cached_exchange: Final = lru_cache(CACHE_SIZE)(_build_exchange)


def compute_run_digest(run: Iterable[TurnMessages]) -> Digest:
    """Return the digest of a run of turns."""
    return compute_digest("".join([turn.digest_line for turn in run]))


def count_latest_turns(message_counts: Sequence[int], keep: int) -> int:
    """Return how many of the latest turns have `keep` messages together, each turn whole."""
    turns = messages = 0
    while messages < keep and turns < len(message_counts):
        turns += 1
        messages += message_counts[-turns]
    return turns


def list_shown_refs(
    turn: SettledTurnRef, *, work: bool
) -> tuple[TextRef | None, TextRef | None, TextRef | None]:
    """Return the references of question, reply and work; None where there is no text to show.

    The outcomes of tools that windows include are in `SettledTurnRef.outcome_refs`.
    """
    text, reply, work_ref = turn.text, turn.reply, turn.work if work else None
    return (  # written out, since a loop takes three times as long, for each turn of a window
        text if text and text.characters else None,
        reply if reply and reply.characters else None,
        work_ref if work_ref and work_ref.characters else None,
    )


def build_exchanges(
    turns: Iterable[SettledTurnRef],
    texts: Mapping[TextRef, str],
    counting: TokenCounter,
    *,
    model: str = "",
    work: bool = False,
    listed_turn: int | None = None,
    kept_reasoning: ReasoningMode | None = None,
) -> Iterator[TurnExchange]:
    """Yield the exchanges of turns; a recorded turn is always rendered the same way.

    The work of `listed_turn` is shown without the results that another part of the prompt lists.
    The tokens of media are those of `model`, and its replies have what it reasoned before them, as
    far as that is kept.
    """
    for turn in turns:
        try:
            text_ref, reply_ref, work_ref = list_shown_refs(turn, work=work)
            text = texts[text_ref] if text_ref else ""
            reply = texts[reply_ref] if reply_ref else ""
            work_text = texts[work_ref] if work_ref else ""
            if turn.outcome_refs:
                reply = add_outcomes([texts[ref] for ref in turn.outcome_refs], reply)
        except KeyError as missing:
            raise Corrupt(f"turn {turn.turn}", f"the text of {missing} was not fetched") from None
        answer = add_work(work_text, reply) if work_text else reply
        has_media = bool(turn.media)
        exchange = build_exchange(
            turn=turn.turn,
            text=text,
            reply=answer,
            counting=counting,
            role=turn.role,
            has_media=has_media,
        )
        if work_text:
            spoken = build_turn_messages(text, reply, has_media=has_media)
            exchange = replace(exchange, spoken=spoken)
        left = omit_answered_results(work_text) if turn.turn == listed_turn else work_text
        shown = (
            exchange
            if left == work_text
            else _omit_results(
                exchange=exchange,
                text=text,
                answer=add_work(left, reply) if left else reply,
                counting=counting,
                has_media=has_media,
            )
        )
        shown = replace(shown, media=plan_media(turn.media, model)) if has_media else shown
        reasoned = find_shown_reasoning(turn, model, kept_reasoning) if kept_reasoning else None
        yield _add_reasoning(shown, reasoned, texts[reasoned.said], counting) if reasoned else shown


def find_shown_reasoning(
    turn: SettledTurnRef, model: str, kept: ReasoningMode
) -> ReasoningRef | None:
    """Return what the model reasoned before the reply of a turn; None if another one did."""
    reasoned = turn.reasoning
    if reasoned is None or reasoned.model != model or not (turn.reply and turn.reply.characters):
        return None
    return reasoned if reasoned.reply_of is None or kept == "keep_all" else None


def _add_reasoning(
    exchange: TurnExchange, reasoned: ReasoningRef, text: str, counting: TokenCounter
) -> TurnExchange:
    planned = plan_reply_reasoning(reasoned, text)
    tokens = counting.count_tokens(planned.text) if planned.text else 0
    return replace(exchange, reasoning=planned, reasoning_tokens=tokens)


def _omit_results(
    exchange: TurnExchange, text: str, answer: str, counting: TokenCounter, *, has_media: bool
) -> TurnExchange:
    """Return an exchange whose work is shown without the results that a layer lists."""
    shorter = build_exchange(
        turn=exchange.turn, text=text, reply=answer, counting=counting, has_media=has_media
    )
    return replace(
        shorter,
        condensed_run=CondensedRun(
            last_turn=exchange.turn, condensed="results-1", rule=LISTED_RULE
        ),
        saved=exchange.tokens - shorter.tokens,
        spoken=exchange.spoken,
    )
