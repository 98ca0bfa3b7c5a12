"""Which calls had a source in their prompt, over HTTP, of sessions on the shipped blueprint."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent_programs.agent_service import AgentService, answer_with_text
from tests.agent_programs.shipped.test_sliding_window import (
    SUMMARY,
    TOPICS,
    build_question,
    run_topics,
)
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import BlobSource, EventTextSource
from turnlog.events.model.memory_events import HistorySummarised

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def list_uses(platform: AgentService, source: str, **query: str) -> dict[str, list[Any]]:
    """Return the ways of all uses by call, read in pages of two."""
    found: dict[str, list[Any]] = {}
    after: dict[str, str] = {}
    while True:
        page = await platform.fetch_json("/v1/uses", source=source, limit=2, **query, **after)
        assert page["stopped"] == []
        found |= {f"{each['session']} {each['call']}": each["through"] for each in page["uses"]}
        if page["next"] is None:
            return found
        after = {"after": page["next"]}


async def test_uses_of_a_turn_include_calls_that_have_only_its_summary(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={})
    await run_topics(platform, session, *TOPICS[:4])
    platform.provider.queue_behaviours(answer_with_text(SUMMARY))
    await run_topics(platform, session, *TOPICS[4:5])
    uses = await list_uses(platform, f"turn:{session}/1")
    (summarised,) = [
        each
        for each in await platform.load_recorded_events(session)
        if isinstance(each.event, HistorySummarised)
    ]
    hop = {"kind": "summary", "session": session, "turn": None, "sequence": summarised.sequence}
    direct: dict[str, list[Any]] = {f"{session} {turn}.1": [] for turn in range(1, 6)}
    assert uses == {**direct, f"{session} 5.2": [hop]}
    texts = [build_question(TOPICS[0]) in each for each in platform.get_request_texts(-1)]
    assert not any(texts), "the prompt itself has the summary alone"
    narrowed = await list_uses(platform, f"event:{session}/{summarised.sequence}", session=session)
    assert narrowed == {f"{session} 5.2": []}


async def test_uses_of_a_file_are_those_whose_manifest_names_its_digest(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={})
    await run_topics(platform, session, *TOPICS[:2])
    calls = await platform.load_events(session, ContextAssembled)
    digest = next(
        part.source.digest
        for part in calls[0].manifest.parts
        if part.is_included and isinstance(part.source, BlobSource)
    )
    uses = await list_uses(platform, digest, session=session)
    assert uses == {f"{session} 1.1": [], f"{session} 2.1": []}


async def test_a_reply_is_followed_where_that_is_asked_for(platform: AgentService) -> None:
    session = await platform.open_shipped_session("uderia", attributes={})
    await run_topics(platform, session, *TOPICS[:2])
    calls = await platform.load_events(session, ContextAssembled)
    question = next(
        part.source.sequence
        for part in calls[0].manifest.parts
        if part.is_included and isinstance(part.source, EventTextSource) and part.layer == "input"
    )
    await platform.http.put(f"/v1/sessions/{session}/turns/1/exclusion")
    await run_topics(platform, session, TOPICS[2])
    source = f"event:{session}/{question}"
    assert set(await list_uses(platform, source)) == {f"{session} 1.1", f"{session} 2.1"}
    followed = await list_uses(platform, source, replies="true")
    hop = {"kind": "reply", "session": session, "turn": 2, "sequence": None}
    assert followed[f"{session} 3.1"] == [hop]


@pytest.mark.parametrize("source", ["turn:s", "segment:x", "nothing", "turn:s/0", "sha256:12"])
async def test_what_names_no_source_is_refused_with_the_forms(
    platform: AgentService, source: str
) -> None:
    refused = await platform.http.get("/v1/uses", params={"source": source})
    assert refused.status_code == 422
    assert "document:COLLECTION/ENTRY" in refused.json()["fix"]
