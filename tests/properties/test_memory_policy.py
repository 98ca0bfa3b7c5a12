"""Memory policies, compared with an independent computation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from turnlog.events.codec import format_rfc3339
from turnlog.projections.blueprint.schema.history_specs import MemoryPolicy, MemoryReaderSpec
from turnlog.projections.prompt.history.memory_access import MemoryAccess, find_memory_exclusions
from turnlog.projections.session.state import SettledTurnRef
from turnlog.projections.session.text_refs import TextRef

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)

LIMITS = st.sampled_from([0, 1, 2, 3, 5, 40])

READERS = st.builds(
    MemoryReaderSpec,
    enabled=st.sampled_from([True, True, True, False]),
    max_turns=LIMITS,
    max_chars=LIMITS,
    allowed_entities=st.sampled_from([(), ("funds",)]),
    denied_entities=st.sampled_from([(), (), ("shares",)]),
)

POLICIES = st.builds(
    MemoryPolicy,
    enabled=st.sampled_from([True, True, True, False]),
    max_turns=LIMITS,
    max_chars=LIMITS,
    ttl_seconds=st.sampled_from([0, 30, 100]),
    planner=READERS,
    narrator=READERS,
)

EXCHANGES = st.lists(
    st.tuples(
        st.integers(1, 12), st.none() | st.integers(0, 12), st.integers(0, 9), st.integers(0, 9)
    ),
    max_size=8,
)


@st.composite
def draw_conversation(draw: st.DrawFn) -> tuple[SettledTurnRef, ...]:
    """Draw settled turns, oldest first, with times that never go back."""
    gaps, turns, age = draw(EXCHANGES), list[SettledTurnRef](), 120
    for number, (question_length, reply_length, before, thinking) in enumerate(gaps, 1):
        age = max(0, age - before)
        text = _build_text_ref(number, "text", question_length, age)
        age = max(0, age - thinking)
        reply = (
            None if reply_length is None else _build_text_ref(number, "reply", reply_length, age)
        )
        turns.append(SettledTurnRef(turn=number, status="completed", text=text, reply=reply))
    return tuple(turns)


def _build_text_ref(turn: int, field: str, characters: int, age: int) -> TextRef:
    at = format_rfc3339(NOW - timedelta(seconds=age))
    return TextRef(
        sequence=turn, place=turn, field=field, digest="sha256:x", characters=characters, at=at
    )


def compute_allowed_turns(
    policy: MemoryPolicy, block: MemoryReaderSpec, entity: str, turns: list[SettledTurnRef]
) -> set[int]:
    """Try every tail of the conversation, and keep the longest that breaks no rule."""
    allowed = entity in block.allowed_entities or not block.allowed_entities
    if not (policy.enabled and block.enabled and allowed) or entity in block.denied_entities:
        return set()
    for first in range(len(turns) + 1):
        tail = turns[first:]
        refs = [each for ref in tail for each in (ref.text, ref.reply) if each and each.characters]
        ages = [(NOW - datetime.fromisoformat(each.at)).total_seconds() for each in refs]
        fits = (
            all(len(refs) <= most for most in (policy.max_turns, block.max_turns) if most)
            and all(
                sum(each.characters for each in refs) <= most
                for most in (policy.max_chars, block.max_chars)
                if most
            )
            and (not policy.ttl_seconds or all(age <= policy.ttl_seconds for age in ages))
        )
        if fits:
            return {ref.turn for ref in tail}
    raise AssertionError("nothing at all always fits")


@given(POLICIES, draw_conversation(), st.sampled_from(["funds", "shares"]))
def test_memory_includes_the_longest_recent_history_that_all_limits_allow(
    policy: MemoryPolicy, turns: tuple[SettledTurnRef, ...], entity: str
) -> None:
    recall = MemoryAccess(policy=policy, reader="narrator", at=format_rfc3339(NOW), entity=entity)
    included = {ref.turn for ref in turns} - find_memory_exclusions(recall, turns).keys()
    assert included == compute_allowed_turns(policy, policy.narrator, entity, [*turns])
