"""What the output guard releases of a reply, however the model splits it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layered_prompts.crashing_workers import SESSION, CrashingSession, remove_retry_delays
from tests.layered_prompts.tutor_sessions import load_shipped_material
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.tokens import AttemptClosed, Token
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.read_models.session_history import build_history
from turnlog.services.worker.attempts.output_guard import GuardViolation, OutputGuard, build_guard

HoldBack = Literal["none", "sentence", "reply"]

HOLDS: Final[tuple[HoldBack, ...]] = ("none", "sentence", "reply")

DRAW: Final = load_shipped_material("lucky-draw")

SECRET: Final = "trick@example.org"


def build_material(hold_back: HoldBack) -> SessionMaterial:
    """Give the trickster with another measure of holding back."""
    blueprint = remove_retry_delays(DRAW.blueprint)
    written = blueprint.model_dump(mode="json", by_alias=True, exclude_unset=True)
    written["policies"]["safety"]["hold_back"] = hold_back
    return SessionMaterial(Blueprint.model_validate(written), DRAW.cartridge)


MATERIALS: Final = {hold: build_material(hold) for hold in HOLDS}

BROKEN: Final = re.compile(
    r"\b\d{8,}\b|\S+@\S+\.\w+|\bgambling\s+addiction\b|\bfamily\s+money\b", re.IGNORECASE
)
"""The rules of the task again, in one pattern."""

WORDS = st.sampled_from(
    ["Hello", "well", "e.g.", "No!", "Now?\n", "2 000", SECRET, f"{SECRET}.", "86012345",
     "family money", "Family\nMoney", "Gambling addiction.", "žmogus", "(so.)", "\n", "…"]
)  # fmt: skip

REPLIES = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)


@st.composite
def draw_chunks(draw: st.DrawFn) -> tuple[str, ...]:
    """Draw a reply split at random positions."""
    reply = draw(REPLIES)
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(reply) - 1)))))
    return tuple(reply[a:b] for a, b in pairwise([0, *cuts, len(reply)]) if a < b)


def feed_guard(
    guard: OutputGuard, pieces: tuple[str, ...]
) -> tuple[list[str], GuardViolation | None]:
    """Give what a guard shows of a reply, and what ends it."""
    shown: list[str] = []
    for piece in (*pieces, None):
        released = guard.release_rest() if piece is None else guard.add_text(piece)
        if isinstance(released, GuardViolation):
            return shown, released
        shown += [released] if released else []
    return shown, None


@pytest.mark.parametrize("hold_back", HOLDS)
@given(pieces=draw_chunks())
def test_nothing_forbidden_is_ever_shown_and_a_reply_that_holds_it_never_ends_well(
    hold_back: HoldBack, pieces: tuple[str, ...]
) -> None:
    reply = "".join(pieces)
    shown, violation = feed_guard(build_guard(MATERIALS[hold_back]), pieces)
    text = "".join(shown)
    assert reply.startswith(text)
    assert not BROKEN.search(text)
    if BROKEN.search(reply):
        assert violation
    elif hold_back != "none":
        assert violation is None
    if violation is None:
        assert text == reply


@given(draw_chunks())
def test_a_held_back_sentence_is_shown_whole_or_not_at_all(pieces: tuple[str, ...]) -> None:
    reply = "".join(pieces)
    shown, _ = feed_guard(build_guard(MATERIALS["sentence"]), pieces)
    for token in shown:
        assert token == reply[-len(token) :] or token[-1].isspace()


@given(draw_chunks())
def test_a_reply_held_back_whole_is_shown_at_once_or_not_at_all(pieces: tuple[str, ...]) -> None:
    shown, violation = feed_guard(build_guard(MATERIALS["reply"]), pieces)
    assert shown == ([] if violation else ["".join(pieces)])


async def publish_reply(hold_back: HoldBack, *pieces: str) -> tuple[CrashingSession, list[str]]:
    """Let a worker answer with these pieces and return the published text."""
    play = CrashingSession(MATERIALS[hold_back])
    await play.open_session()
    await play.submit_text("Who are you?")
    await play.answer_turn(*pieces)
    held = await play.house.tokens.read_token_events("t", SESSION, 1)
    assert not any(isinstance(each.event, AttemptClosed) for each in held)
    return play, [each.event.text for each in held if isinstance(each.event, Token)]


@pytest.mark.parametrize(
    ("hold_back", "shown", "said"),
    [("none", 3, 4), ("sentence", 1, 5), ("reply", 0, 5)],
)
async def test_what_is_withheld_lies_in_a_blob_that_the_record_names_and_nowhere_else(
    hold_back: HoldBack, shown: int, said: int
) -> None:
    pieces = ("Ask me. ", "At trick", "@exa", "mple.org.", " Soon.")
    play, published = await publish_reply(hold_back, *pieces)
    assert published == list(pieces[:shown])
    events = play.house.list_events()
    (redacted,) = [each.event for each in events if isinstance(each.event, ReplyRedacted)]
    assert redacted.rule == "contact-details"
    withheld = "".join(pieces[:said])
    assert redacted.withheld is not None
    assert redacted.withheld == compute_digest(withheld)
    assert await play.house.blobs.get_blob("t", redacted.withheld) == withheld.encode()
    assert "trick@exa" not in str([each.stored for each in events])
    (turn,) = build_history(events)
    replacement = MATERIALS[hold_back].blueprint.policies.replacement
    assert (turn.reply, turn.redacted) == (PlainText(text=replacement), True)
