"""What the output guard releases of a reply, however the model splits it."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterable
from importlib import import_module
from itertools import pairwise, product
from pathlib import Path
from typing import Final, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.layered_prompts.crashing_workers import SESSION, CrashingSession, remove_retry_delays
from tests.layered_prompts.tutor_sessions import load_shipped_material
from tests.support.processes.registered_packages import register_package
from tests.support.sessions.session_harness import TENANT
from turnlog.events.content import PlainText, compute_digest, decode_withheld_text
from turnlog.events.errors import Refused
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.tokens import AttemptClosed, Token
from turnlog.projections.blueprint.linear_patterns import MATCH_REACH, compile_pattern
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session_views.session_history import build_history
from turnlog.services.platform.concurrency import LONG_TEXT
from turnlog.services.worker.attempts.output_guard import (
    GuardViolation,
    OutputGuard,
    SafetyCheckFailure,
    build_guard,
    load_guard,
)
from turnlog.services.worker.attempts.topic_list import find_listed_topic

HoldBack = Literal["none", "sentence", "reply"]

HOLDS: Final[tuple[HoldBack, ...]] = ("none", "sentence", "reply")

DRAW: Final = load_shipped_material("lucky-draw")

SECRET: Final = "trick@example.org"


def build_material(hold_back: HoldBack) -> SessionMaterial:
    """Give the trickster with another measure of holding back."""
    blueprint = remove_retry_delays(DRAW.blueprint)
    written = blueprint.model_dump(mode="json", by_alias=True, exclude_unset=True)
    written["policies"]["safety"]["hold_back"] = hold_back
    return SessionMaterial(blueprint=Blueprint.model_validate(written), cartridge=DRAW.cartridge)


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
    guard: OutputGuard, pieces: Iterable[str]
) -> tuple[list[str], GuardViolation | None]:
    """Return what a guard shows of a reply, and what ends it."""
    return asyncio.run(feed_running_guard(guard, pieces))


async def feed_running_guard(
    guard: OutputGuard, pieces: Iterable[str]
) -> tuple[list[str], GuardViolation | None]:
    texts: list[str] = []
    for piece in (*pieces, None):
        released = await (guard.release_rest() if piece is None else guard.add_text(piece))
        if isinstance(released, GuardViolation):
            return texts, released
        texts += [released] if released else []
    return texts, None


@pytest.mark.parametrize("hold_back", HOLDS)
@given(pieces=draw_chunks())
def test_forbidden_text_is_never_shown_and_a_reply_that_contains_it_is_a_violation(
    hold_back: HoldBack, pieces: tuple[str, ...]
) -> None:
    reply = "".join(pieces)
    texts, violation = feed_guard(build_guard(MATERIALS[hold_back]), pieces)
    text = "".join(texts)
    assert reply.startswith(text)
    assert not BROKEN.search(text)
    if BROKEN.search(reply):
        assert violation
    elif hold_back != "none":
        assert violation is None
    if violation is None:
        assert text == reply


@given(draw_chunks())
def test_held_back_sentence_is_shown_whole_or_not_at_all(pieces: tuple[str, ...]) -> None:
    reply = "".join(pieces)
    texts, _ = feed_guard(build_guard(MATERIALS["sentence"]), pieces)
    for token in texts:
        assert token == reply[-len(token) :] or token[-1].isspace()


@given(draw_chunks())
def test_reply_held_back_whole_is_shown_at_once_or_not_at_all(pieces: tuple[str, ...]) -> None:
    texts, violation = feed_guard(build_guard(MATERIALS["reply"]), pieces)
    assert texts == ([] if violation else ["".join(pieces)])


@pytest.mark.slow("whole sessions run on a service of their own")
@pytest.mark.parametrize("hold_back", HOLDS)
@pytest.mark.parametrize(
    ("before", "size"),
    [
        *product((0, 1, MATCH_REACH - 20, MATCH_REACH), (1, 7, 5_000)),
        # Twelve thousand pieces of one character would take as long as all others together.
        *product((3 * MATCH_REACH,), (7, 5_000)),
    ],
)
def test_forbidden_text_is_found_at_any_position(
    hold_back: HoldBack, before: int, size: int
) -> None:
    reply = "so " * (before // 3) + f"Write to {SECRET} today. " + "so " * 1_000
    pieces = [reply[at : at + size] for at in range(0, len(reply), size)]
    texts, violation = feed_guard(build_guard(MATERIALS[hold_back]), pieces)
    assert violation == GuardViolation("contact-details", "it matches a pattern")
    assert not BROKEN.search("".join(texts))


@pytest.mark.parametrize("hold_back", HOLDS)
def test_reply_of_one_repeated_character_does_not_block_the_guard_of_the_shipped_tutor(
    hold_back: HoldBack,
) -> None:
    """A pattern that backtracks is busy for half a minute with the first 3,000 of them."""
    pieces = ["@" * 50] * 2_000
    texts, violation = feed_guard(build_guard(MATERIALS[hold_back]), pieces)
    assert (violation, "".join(texts)) == (None, "".join(pieces))


@pytest.mark.parametrize("hold_back", HOLDS)
@pytest.mark.parametrize("unit", ["@", "x", ". ", "\n", "a@"])
def test_work_of_the_guard_grows_linearly_with_the_reply(hold_back: HoldBack, unit: str) -> None:
    """With a search of the whole text at each release this reads 24 times a gigabyte and more."""
    searched = 0

    def count_characters(text: str) -> None:
        nonlocal searched
        searched += len(text)

    pieces = [unit * 40] * 5_000
    guard = OutputGuard(hold_back=hold_back, rules=(("count", count_characters),))
    texts, violation = feed_guard(guard, pieces)
    assert (violation, "".join(texts)) == (None, "".join(pieces))
    length = len("".join(pieces))
    assert searched <= 2 * length + len(pieces) * MATCH_REACH


@pytest.mark.parametrize("hold_back", ["none", "sentence"])
def test_rule_about_the_beginning_of_a_reply_does_not_end_it_in_the_middle(
    hold_back: HoldBack,
) -> None:
    searched = 0

    def find_late_beginning(text: str) -> str | None:
        nonlocal searched
        searched += len(text)
        return None if text.startswith("Begin") else "it does not begin so"

    pieces = ["Begin. ", *["And on. "] * 5_000]
    guard = OutputGuard(hold_back=hold_back, rules=(("beginning", find_late_beginning),))
    texts, violation = feed_guard(guard, pieces)
    assert (violation, "".join(texts)) == (None, "".join(pieces))
    assert len(texts) > MATCH_REACH // 8, "no more is held back than it must"
    assert searched <= 20 * len("".join(pieces)) + len(pieces) * 2 * MATCH_REACH


async def test_patterns_are_compiled_once_when_a_session_is_loaded() -> None:
    written = DRAW.blueprint.model_dump(mode="json", by_alias=True, exclude_unset=True)
    written["policies"]["safety"]["rules"] = [{"name": "rare", "pattern": "a rare secret"}]
    play = CrashingSession(
        SessionMaterial(blueprint=Blueprint.model_validate(written), cartridge=DRAW.cartridge)
    )
    await play.open_session()
    state = await play.house.sessions.load_state(TENANT, SESSION)
    assert state
    material = await play.house.blueprints.load_material(state)
    compiled = compile_pattern.cache_info().misses
    build_guard(material)
    assert compile_pattern.cache_info().misses == compiled


NOTED_CHECK = """
import threading

threads = [threading.get_ident()]

def note_thread(text, options):
    threads.append(threading.get_ident())
"""


async def test_registered_check_is_imported_and_runs_in_a_thread(tmp_path: Path) -> None:
    written = DRAW.blueprint.model_dump(mode="json", by_alias=True, exclude_unset=True)
    written["policies"]["safety"]["rules"] = [{"name": "noted", "check": "noted"}]
    written["policies"]["safety"]["hold_back"] = "none"
    material = SessionMaterial(
        blueprint=Blueprint.model_validate(written), cartridge=DRAW.cartridge
    )
    with register_package(tmp_path, "turnlog.checks", "noted=noted_check:note_thread", NOTED_CHECK):
        assert await (await load_guard(material)).add_text("Hello.") == "Hello."
        imported, ran = import_module("noted_check").threads
    assert threading.get_ident() not in {imported, ran}


async def test_session_with_an_unusable_pinned_pattern_is_refused_with_a_fix() -> None:
    written = DRAW.blueprint.model_dump(mode="json", by_alias=True, exclude_unset=True)
    written["policies"]["safety"]["rules"] = [{"name": "old", "pattern": "(?=a)b"}]
    pinned = SessionMaterial(blueprint=Blueprint.model_validate(written), cartridge=DRAW.cartridge)
    with pytest.raises(Refused) as refused:
        build_guard(pinned)
    assert "the pattern of the rule `old` cannot be used: look-ahead" in refused.value.detail
    assert refused.value.fix.endswith("and move the session to that version")


async def publish_reply(hold_back: HoldBack, *pieces: str) -> tuple[CrashingSession, list[str]]:
    """Let a worker answer with these pieces and return the published text."""
    play = CrashingSession(MATERIALS[hold_back])
    await play.open_session()
    await play.submit_text("Who are you?")
    await play.answer_turn(*pieces)
    token_events = await play.house.tokens.read_token_events("t", SESSION, 1)
    assert not any(isinstance(each.event, AttemptClosed) for each in token_events)
    return play, [each.event.text for each in token_events if isinstance(each.event, Token)]


@pytest.mark.parametrize(
    ("hold_back", "published_count", "withheld_count"),
    [("none", 3, 4), ("sentence", 1, 5), ("reply", 0, 5)],
)
async def test_withheld_text_is_stored_only_in_the_blob_that_its_event_names(
    hold_back: HoldBack, published_count: int, withheld_count: int
) -> None:
    pieces = ("Ask me. ", "At trick", "@exa", "mple.org.", " Soon.")
    play, published = await publish_reply(hold_back, *pieces)
    assert published == list(pieces[:published_count])
    events = play.house.list_events()
    (redacted,) = [each.event for each in events if isinstance(each.event, ReplyRedacted)]
    assert redacted.rule == "contact-details"
    withheld = "".join(pieces[:withheld_count])
    assert redacted.withheld is not None
    blob = await play.house.blobs.get_blob("t", redacted.withheld)
    assert decode_withheld_text(blob) == withheld
    assert compute_digest(withheld) not in str([each.stored for each in events])
    assert "trick@exa" not in str([each.stored for each in events])
    (turn,) = build_history(events)
    replacement = MATERIALS[hold_back].blueprint.policies.get_replacement("lt")
    assert (turn.reply, turn.redacted) == (PlainText(text=replacement), True)


TERMS: JsonValue = {"en": ["self-harm*"], "lt": ["savižal*", "žaloti save"]}


@pytest.mark.parametrize(
    "text",
    [
        "On self harm.", "On SELFHARM.", "On self-harming.", "On self_harm.", "Apie savižalą.",
        "Apie SAVIZALOS temą.", "Kam žaloti  save?", "Kam zaloti save?", "sa\u200bvižala",
    ],
)  # fmt: skip
def test_term_is_found_regardless_of_case_accents_spacing_and_ending(text: str) -> None:
    assert asyncio.run(find_listed_topic(text, TERMS))


def test_first_term_of_a_long_list_is_named_and_few_patterns_are_compiled() -> None:
    terms: list[JsonValue] = ["", "?!", *(f"forbidden word {number:03}*" for number in range(300))]
    compiled = compile_pattern.cache_info().misses
    assert asyncio.run(find_listed_topic("Nothing of it: word 299, forbidden.", terms)) is None
    found = asyncio.run(find_listed_topic("A Forbidden-word 299th, forbidden word 298.", terms))
    assert found == "it names forbidden word 298*"
    assert compile_pattern.cache_info().misses - compiled < 300 // 5


@pytest.mark.parametrize("text", ["Myself, harmless as I am.", "Savaitė be žalos.", "Save it."])
def test_term_is_not_found_within_other_words(text: str) -> None:
    assert asyncio.run(find_listed_topic(text, TERMS)) is None


@pytest.mark.parametrize(
    ("text", "withheld"),
    [
        ("Rašyk man: +370 612 34567.", True),
        ("Skambink 8 612 34567!", True),
        ("Or (8-5) 234 5678.", True),
        ("LT601010012345678901", True),
        ("Look at www.prizes.example today.", True),
        ("https://prizes.example/draw", True),
        ("trick@example.org", True),
        ("In 2026-11-22 10:30 it was 1,000 times 8, or 8 000.", False),
        ("Vaikų linija: 116 111.", False),
        ("Half the town, 8 of 10, shared it.", False),
    ],
)
async def test_shipped_rule_finds_contact_details_and_ignores_other_numbers(
    text: str, *, withheld: bool
) -> None:
    guard = build_guard(DRAW)
    await guard.add_text(text)
    found = await guard.release_rest()
    assert isinstance(found, GuardViolation) == withheld


def find_no(text: str) -> str | None:
    return "it says no" if "no!" in text else None


async def judge_slowly(text: str) -> str | None:
    """Judge a text after other work had its turn; one text cannot be judged."""
    await asyncio.sleep(0)
    if "unclear" in text:
        raise ConnectionError(text)
    return "it touches weapons" if "sword" in text else None


@pytest.mark.parametrize("length", [1, 3 * LONG_TEXT])
async def test_asynchronous_check_is_awaited_after_the_checks_before_it(length: int) -> None:
    rules = (("words", find_no), ("judge", judge_slowly))
    guard, filling = OutputGuard(hold_back="reply", rules=rules), "so " * length
    assert await guard.check_text(f"{filling} well") is None
    assert await guard.check_text(f"{filling} a sword") == GuardViolation(
        "judge", "it touches weapons"
    )
    assert await guard.check_text(f"{filling} a sword, no!") == GuardViolation(
        "words", "it says no"
    )


async def test_other_work_has_its_turn_while_sentences_of_a_long_piece_are_sought() -> None:
    guard = OutputGuard(hold_back="sentence", rules=(("words", find_no),))
    other = asyncio.create_task(asyncio.sleep(0, "done"))
    # No sentence ends in it, so that no rule is checked yet.
    assert await guard.add_text("so " * LONG_TEXT) == ""
    assert other.done()
    assert await guard.add_text("it goes. On") == "so " * LONG_TEXT + "it goes. "


async def test_check_that_raises_fails_its_attempt_and_withholds_an_existing_result() -> None:
    guard = OutputGuard(hold_back="reply", rules=(("judge", judge_slowly),))
    await guard.add_text("It is unclear.")
    with pytest.raises(SafetyCheckFailure) as failed:
        await guard.release_rest()
    detail = "the check of the rule `judge` failed with ConnectionError"
    assert (failed.value.code, failed.value.detail, failed.value.retryable) == (
        *("check_failed", detail),
        True,
    )
    assert guard.shown_length == 0
    assert await guard.describe_violation("It is unclear.") == f"judge: {detail}"
