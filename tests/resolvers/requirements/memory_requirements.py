"""A2, A3 and A5 over HTTP: what the memory keeps, for how long, and who may read it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.resolvers.question_service import (
    POLICY,
    RISK,
    UNRESOLVED_QUESTION,
    QuestionService,
    answer_with_text,
)
from tests.support.processes.process_host import POLL_INTERVAL
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS


def list_prompt_messages(prompt: dict[str, Any]) -> list[str]:
    """Return the messages of a prompt after its system message."""
    return [f"{message['role']}: {message['content']}" for message in prompt["messages"][1:]]


async def test_a2_policy_is_merged_over_the_defaults_per_block(
    a_bank: QuestionService,
) -> None:
    with a_bank.edit_file(POLICY, "enabled: true\nmax_turns: 6\nnarrator: {max_chars: 50}\n"):
        await a_bank.submit_question(UNRESOLVED_QUESTION, "a2-merged")
    policy = (await a_bank.fetch_session_part("a2-merged", "/memory"))["policy"]
    assert (policy["enabled"], policy["max_turns"], policy["ttl_seconds"]) == (True, 6, 3600)
    assert (policy["narrator"]["enabled"], policy["narrator"]["max_chars"]) == (True, 50)
    assert policy["planner"]["max_turns"] == 4


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("ttl_secs: 5\nmax_turns: '8'\n", "policies/context.yaml:1: ttl_secs: `ttl_secs` means"),
        ("enabled: true\nmax_turns: '8'\n", "policies/context.yaml:2: max_turns: it must be"),
        ("enabled: [\n", "policies/context.yaml:"),
        ("- a list\n", "policies/context.yaml:1: it must be"),
    ],
)
async def test_a2_faulty_policy_yields_the_defaults_and_a_warning_with_the_fault(
    a_bank: QuestionService, text: str, warning: str
) -> None:
    conversation = f"a2-{text}"
    with a_bank.edit_file(POLICY, text):
        await a_bank.submit_question(RISK, conversation)
    memory = await a_bank.fetch_session_part(conversation, "/memory")
    assert memory["warnings"][0].startswith(f"araquem/{warning}")
    assert memory["warnings"][0].endswith("the defaults stand in")
    assert (memory["enabled"], memory["policy"]["max_turns"]) == (False, 8)
    assert (await a_bank.fetch_session_part(conversation))["warnings"] == memory["warnings"]


async def test_a2_unknown_policy_key_is_a_warning_with_its_line_and_other_keys_apply(
    a_bank: QuestionService,
) -> None:
    text = "enabled: true\nmax_turns: 6\nttl_secs: 5\nnarrator: {max_chars: 50, tone: dry}\n"
    with a_bank.edit_file(POLICY, text):
        await a_bank.submit_question(UNRESOLVED_QUESTION, "a2-unknown")
    memory = await a_bank.fetch_session_part("a2-unknown", "/memory")
    assert (memory["enabled"], memory["policy"]["max_turns"]) == (True, 6)
    assert memory["policy"]["narrator"]["max_chars"] == 50
    named = [warning.removeprefix("araquem/policies/") for warning in memory["warnings"]]
    assert [warning.split(" means")[0] for warning in named] == [
        "context.yaml:3: ttl_secs: `ttl_secs`",
        "context.yaml:4: narrator.tone: `tone`",
    ]
    assert all(warning.endswith("; it is left out") for warning in named)


async def test_a2_missing_policy_yields_the_defaults_and_a_warning(
    a_bank: QuestionService,
) -> None:
    file = a_bank.blueprint / POLICY
    text = file.read_text()
    file.unlink()
    try:
        await a_bank.submit_question(RISK, "a2-missing")
    finally:
        file.write_text(text)
    (warning,) = (await a_bank.fetch_session_part("a2-missing", "/memory"))["warnings"]
    assert "araquem/policies/context.yaml" in warning
    assert warning.endswith("the defaults stand in")


async def test_a2_policy_edit_affects_only_new_sessions(a_bank: QuestionService) -> None:
    await a_bank.submit_question(UNRESOLVED_QUESTION, "a2-before")
    with a_bank.edit_file(POLICY, "enabled: false\n"):
        await a_bank.submit_question(UNRESOLVED_QUESTION, "a2-before")
        await a_bank.submit_question(UNRESOLVED_QUESTION, "a2-after")
        assert (await a_bank.fetch_session_part("a2-before", "/memory"))["enabled"] is True
        assert (await a_bank.fetch_session_part("a2-after", "/memory"))["enabled"] is False


async def test_a3_memory_limits_apply_to_reads_and_to_prompts(
    a_bank: QuestionService,
) -> None:
    with a_bank.edit_file(POLICY, "enabled: true\nmax_turns: 5\nnarrator: {max_chars: 60}\n"):
        a_bank.provider.queue_behaviours(
            answer_with_text("First."),
            answer_with_text("Second."),
            answer_with_text("Third."),
            answer_with_text("Fourth."),
        )
        await a_bank.submit_question(RISK, "a3")
        await a_bank.submit_question("And LOGT11's price?", "a3")
        await a_bank.submit_question("And PAPR11's price?", "a3")
    expected = ["user: And LOGT11's price?", "assistant: Second."]
    expected += ["user: And PAPR11's price?", "assistant: Third."]
    assert await a_bank.list_memory_messages("a3") == expected
    assert await a_bank.list_memory_messages("a3", reader="narrator") == expected
    assert await a_bank.list_memory_messages("a3", reader="planner") == expected
    await a_bank.submit_question("And what is the price of SHOP11 today, please?", "a3")
    prompt = await a_bank.fetch_prompt("a3", "4.1")
    assert list_prompt_messages(prompt) == [
        *expected,
        "user: And what is the price of SHOP11 today, please?",
    ]
    rules = [
        (part["rule"], part["source"]["first"])
        for part in prompt["manifest"]["parts"]
        if part["layer"] == "history" and part["role"] is None
    ]
    assert rules == [("max_turns", 1)]
    assert len(await a_bank.list_memory_messages("a3", reader="narrator")) == 2


async def test_a3_expired_turns_leave_memory_and_prompts_but_not_recorded_prompts(
    a_bank: QuestionService,
) -> None:
    with a_bank.edit_file(POLICY, "enabled: true\nttl_seconds: 2\n"):
        a_bank.provider.queue_behaviours(
            answer_with_text("First."), answer_with_text("Second."), answer_with_text("Third.")
        )
        await a_bank.submit_question(RISK, "a3-old")
        await a_bank.submit_question("The price of LOGT11?", "a3-old")
    while await a_bank.list_memory_messages("a3-old"):  # noqa: ASYNC110 - only time passes
        await asyncio.sleep(POLL_INTERVAL)
    await a_bank.submit_question("The price of PAPR11?", "a3-old")
    prompt = await a_bank.fetch_prompt("a3-old", "3.1")
    assert list_prompt_messages(prompt) == ["user: The price of PAPR11?"]
    assert "expired" in {part["rule"] for part in prompt["manifest"]["parts"]}
    assert (
        list_prompt_messages(await a_bank.fetch_prompt("a3-old", "2.1"))[-1]
        == "user: The price of LOGT11?"
    )


async def test_a3_without_memory_turns_are_recorded_as_not_remembered_and_in_no_prompt(
    a_bank: QuestionService,
) -> None:
    with a_bank.edit_file(POLICY, "enabled: false\n"):
        a_bank.provider.queue_behaviours(answer_with_text("First."), answer_with_text("Second."))
        await a_bank.submit_question(RISK, "a3-off")
        await a_bank.submit_question("The price of LOGT11?", "a3-off")
    assert await a_bank.list_memory_messages("a3-off") == []
    assert list_prompt_messages(await a_bank.fetch_prompt("a3-off", "2.1")) == [
        "user: The price of LOGT11?"
    ]
    turns = (await a_bank.fetch_session_part("a3-off", "/history"))["turns"]
    assert [(turn["reply"], turn["remembered"]) for turn in turns] == [
        ("First.", False),
        ("Second.", False),
    ]
    assert (await a_bank.fetch_session_part("a3-off", "/references"))["last_reference"] is None


async def test_a5_narrator_prompt_has_only_instructions_facts_and_history(
    a_bank: QuestionService,
) -> None:
    a_bank.provider.queue_behaviours(answer_with_text("Calm."), answer_with_text("Cheap."))
    await a_bank.submit_question(RISK, "a5-exact")
    await a_bank.submit_question("The price of LOGT11?", "a5-exact")
    narrator = (SHIPPED_BLUEPRINTS / "araquem/narrator.md").read_text().rstrip("\n")
    facts = (
        "What was looked up:\n"
        "Intent: fiis_precos\n"
        "Entity: fiis\n"
        'Identifiers: {"ticker": "LOGT11"}\n'
        'Results: {"price": "BRL 101.20", "ticker": "LOGT11"}'
    )
    messages = [
        {"role": "system", "content": f"{narrator}\n\n{facts}"},
        {"role": "user", "content": RISK},
        {"role": "assistant", "content": "Calm."},
        {"role": "user", "content": "The price of LOGT11?"},
    ]
    assert (await a_bank.fetch_prompt("a5-exact", "2.1"))["messages"] == messages
    assert a_bank.provider.exchanges[-1].body["messages"] == messages


@pytest.mark.parametrize(
    ("policy", "included"),
    [
        ("enabled: true\nnarrator: {allowed_entities: [fiis]}\n", True),
        ("enabled: true\n", True),
        ("enabled: true\nnarrator: {allowed_entities: [shares]}\n", False),
        ("enabled: true\nnarrator: {denied_entities: [fiis]}\n", False),
        ("enabled: true\nnarrator: {enabled: false}\n", False),
        ("enabled: false\nnarrator: {allowed_entities: [fiis]}\n", False),
    ],
)
async def test_a5_narrator_prompt_has_history_only_if_the_policy_allows_its_entity(
    a_bank: QuestionService, policy: str, *, included: bool
) -> None:
    with a_bank.edit_file(POLICY, policy):
        a_bank.provider.queue_behaviours(answer_with_text("Calm."), answer_with_text("Cheap."))
        await a_bank.submit_question(RISK, policy)
        await a_bank.submit_question("The price of LOGT11?", policy)
    earlier = [f"user: {RISK}", "assistant: Calm."] if included else []
    assert list_prompt_messages(await a_bank.fetch_prompt(policy, "2.1"))[:-1] == earlier
    seen = await a_bank.list_memory_messages(policy, reader="narrator", entity="fiis")
    assert bool(seen) == included
