"""The shipped `uderia` over HTTP, with model servers that refuse roles at some places.

Each model server answers 400 to a request that its template would refuse, in its words.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.agent_programs.agent_service import AgentService, answer_with_text, start_agent_service
from tests.agent_programs.shipped.test_sliding_window import SUMMARY, TOPICS, run_topics
from tests.agent_programs.shipped.test_summary_steps import HISTORY, open_copied_session
from tests.support.servers.model_behaviours import ModelRefusal
from tests.support.sessions.role_orders import find_role_fault
from turnlog.projections.prompt.request_dialect import RENDERING_VERSION

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOTE = "The price list changed today."


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["qwen3-8b", "gemma-3-27b"])
async def dialect_service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[AgentService]:
    folder = tmp_path_factory.mktemp("dialects")
    async with start_agent_service(folder, model=f"openai/{request.param}") as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module")
async def strict_service(dialect_service: AgentService) -> AsyncIterator[AgentService]:
    """A service whose model server refuses what the template of its model does not take."""
    service = dialect_service.reset_for_test()
    roles = "system_first" if "qwen" in service.worker.contexts.default_model else "alternating"

    def refuse_faulty(body: dict[str, Any]) -> ModelRefusal | None:
        fault = find_role_fault(body["messages"], roles)
        return ModelRefusal(status=400, message=fault) if fault else None

    service.provider.choose_behaviour = refuse_faulty
    yield service
    assert await service.find_unreproducible_calls() == []


@pytest.mark.slow("each model is served by a service of its own")
async def test_carried_texts_and_summaries_reach_a_server_that_takes_one_system_message(
    strict_service: AgentService,
) -> None:
    ladder = "history: {tokens: 3000, ladder: [summarise: {}]}"
    name = f"uderia-{strict_service.worker.contexts.default_model.partition('/')[2]}"
    session = await open_copied_session(strict_service, name, (HISTORY, ladder))
    form = {"to": "focus", "carry": "Wind or crew."}
    entered = await strict_service.http.post(f"/v1/sessions/{session}/phase", json=form)
    assert entered.status_code == 200, entered.text
    await run_topics(strict_service, session, *TOPICS[:4])
    strict_service.provider.queue_behaviours(answer_with_text(SUMMARY))
    await run_topics(strict_service, session, TOPICS[4])
    last = strict_service.get_request_texts(-1)
    assert "Wind or crew." in last[0]
    assert SUMMARY in last[0]


async def test_text_of_the_system_among_the_turns_is_sent_as_one_of_the_user(
    strict_service: AgentService,
) -> None:
    session = await strict_service.open_shipped_session("agent")
    await strict_service.complete_turn(session, answer_with_text("Two crowns."), text="The fare?")
    path = f"/v1/sessions/{session}/turns"
    noted = await strict_service.http.post(path, json={"role": "system", "text": NOTE})
    assert noted.status_code == 200, noted.text
    await strict_service.complete_turn(session, answer_with_text("Three."), text="And now?")
    messages = strict_service.bodies[-1]["messages"]
    is_joined = strict_service.worker.contexts.default_model.endswith("gemma-3-27b")
    expected = [f"{NOTE}\n\nAnd now?"] if is_joined else [NOTE, "And now?"]
    assert [each["content"] for each in messages if each["role"] == "user"] == [
        *("The fare?", *expected)
    ]
    prompt = await strict_service.fetch_prompt(session, "3.1")
    roles = "alternating" if is_joined else "system_first"
    assert prompt["manifest"]["dialect"]["roles"] == roles


async def test_request_for_a_model_in_no_table_is_written_as_the_blueprint_has_it(
    strict_service: AgentService,
) -> None:
    session = await strict_service.open_shipped_session("agent")
    path = f"/v1/sessions/{session}"
    await strict_service.http.post(f"{path}/turns", json={"role": "system", "text": NOTE})
    question = {"text": "And now?", "model": "openai/heron"}
    window = await strict_service.http.post(f"{path}/window", json=question)
    assert window.status_code == 200, window.text
    assert window.json()["manifest"].get("dialect") is None
    assert [each["role"] for each in window.json()["messages"]] == ["system", "system", "user"]
    other = question | {"model": "openai/qwen3"}
    window = await strict_service.http.post(f"{path}/window", json=other)
    assert window.json()["manifest"]["dialect"]["rendering"] == RENDERING_VERSION
    assert [each["role"] for each in window.json()["messages"]] == ["system", "user", "user"]
