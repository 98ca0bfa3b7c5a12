"""T14 over HTTP: for any reply, each layer of its exact prompt, its source, and what was cut."""

from __future__ import annotations

from typing import Any

import pytest

from tests.layered_prompts.tutor_service import (
    DRAW,
    FORBIDDEN,
    REPLACEMENT,
    TutorService,
    answer_with_signal,
    answer_with_text,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def fetch_explanation(tutor_service: TutorService, session: str, turn: int) -> Any:  # noqa: ANN401 - JSON
    return await tutor_service.service.get_json(f"/v1/sessions/{session}/turns/{turn}/why")


def read_system_prompt(tutor_service: TutorService, parts: list[dict[str, Any]]) -> str:
    """Join the system message of the explained parts from what their sources say."""
    texts: list[str] = []
    for part in (each["part"] for each in parts if each["part"]["role"] == "system"):
        source = part["source"]
        stored = source.get("text") or tutor_service.read_prompt_file(source["path"])
        texts.append(f"{part['before']}{stored}{part['after']}")
    return "".join(texts)


def list_events(causes: list[dict[str, Any]]) -> list[str]:
    return [cause["event"] for cause in causes]


async def test_t14_why_names_each_layer_of_the_exact_prompt_and_its_events(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_dialogue()
    await tutor_service.submit_and_watch(session, "Who wrote it?", answer_with_text(FORBIDDEN))
    await tutor_service.submit_and_watch(session, "Why so fast?", answer_with_text("Soon."))
    explanation = await fetch_explanation(tutor_service, session, 2)
    parts = explanation["parts"]
    sent = tutor_service.sent["messages"]
    assert read_system_prompt(tutor_service, parts) == sent[0]["content"]
    assert [each["content"] for each in sent[1:]] == ["Who wrote it?", REPLACEMENT, "Why so fast?"]
    assert (explanation["said"]["text"], explanation["reply"]["text"]) == ("Why so fast?", "Soon.")
    found = {each["part"]["layer"]: each for each in parts}
    assert [*found] == [
        "persona", "behaviour", "safety", "provider", "task", "safety_config", "language",
        "student_path", "redaction_note", "withdrawn_note", "history", "input",
    ]  # fmt: skip
    assert {name: " ".join(list_events(each["by"])) for name, each in found.items()} == {
        **dict.fromkeys(("persona", "behaviour", "safety"), "prompts-snapshotted"),
        **dict.fromkeys(("provider", "withdrawn_note"), ""),
        **dict.fromkeys(("task", "safety_config", "language"), "session-opened"),
        **dict.fromkeys(("student_path", "redaction_note"), "session-opened"),
        "history": "turn-submitted reply-redacted",
        "input": "turn-submitted",
    }
    filled = {each["path"]: list_events(each["by"]) for part in parts for each in part["filled"]}
    assert filled["session.phase"] == ["phase-entered"]
    assert filled["session.choices"] == ["choice-recorded"]
    assert filled["cartridge.evaluation.patterns_embedded"] == ["session-opened"]
    assert list_events(found["redaction_note"]["because"]) == ["reply-redacted"]
    absent = found["provider"]["part"]
    assert (absent["treatment"], absent["rule"]) == ("absent", "nothing to say")
    withheld = (await fetch_explanation(tutor_service, session, 1))["withheld"]
    assert (withheld["rule"], withheld["reason"]) == ("contact-details", "it matches a pattern")


async def test_t14_why_names_the_cut_turns_and_the_rule_that_cut_them(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_dialogue()
    for letter in "abcd":
        await tutor_service.submit_and_watch(
            session, letter * 100_000, answer_with_text(f"{letter}?")
        )
    explanation = await fetch_explanation(tutor_service, session, 4)
    assert explanation["budget"] == 100_000
    runs = [each["part"] for each in explanation["parts"] if each["part"]["layer"] == "history"]
    assert [
        (run["treatment"], run["rule"], run["source"]["first"], run["source"]["last"])
        for run in runs
    ] == [("dropped", "drop_oldest_pairs", 1, 2), ("kept", None, 3, 3)]
    sent = tutor_service.sent["messages"]
    assert read_system_prompt(tutor_service, explanation["parts"]) == sent[0]["content"]
    assert [each["content"][:1] for each in sent[1:]] == ["c", "c", "d"]


async def test_t14_why_of_a_debrief_names_its_trigger_and_the_data_it_reveals(
    tutor_service: TutorService,
) -> None:
    session = await tutor_service.open_session(DRAW)
    await tutor_service.submit_and_watch(session, "What did I win?")
    await tutor_service.submit_and_watch(
        session,
        "That is bait.",
        answer_with_signal("understood", "Well done."),
        answer_with_text("Here is how it went."),
    )
    await tutor_service.watch_turn(session, 3)
    explanation = await fetch_explanation(tutor_service, session, 3)
    assert (explanation["said"], explanation["started"]["event"]) == (None, "phase-entered")
    parts = explanation["parts"]
    assert read_system_prompt(tutor_service, parts) == tutor_service.sent["messages"][0]["content"]
    (reveal,) = [each for each in parts if each["part"]["layer"] == "reveal"]
    filled = {each["path"]: list_events(each["by"]) for each in reveal["filled"]}
    assert filled["session.phase"] == ["phase-entered"]
    assert explanation["budget"] is None
