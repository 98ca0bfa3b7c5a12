"""The Python client against a running service: conversations, lost connections and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from tests.support.processes.turnlog_up import TurnlogUp
from tests.support.servers.fault_proxy import FaultProxy, run_fault_proxy
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.client import (
    AsyncTurnlogClient,
    ClientOperation,
    DoneEvent,
    ImportedEntry,
    InvalidRequest,
    NotFound,
    OverrideCategory,
    PutEntryRequest,
    RequestConflict,
    ServiceUnavailable,
    SessionClient,
    TokenEvent,
    TurnEvent,
    TurnlogClient,
    TurnUnsettled,
)
from turnlog.events.model.retrieval_events import FeedbackGiven
from turnlog.events.model.turn_events import TurnCompleted, TurnSubmitted

pytestmark = pytest.mark.asyncio(loop_scope="session")


def get_address(up: TurnlogUp) -> str:
    return str(up.service.http.base_url)


@pytest_asyncio.fixture(loop_scope="session")
async def turnlog(up: TurnlogUp) -> AsyncIterator[AsyncTurnlogClient]:
    async with AsyncTurnlogClient(get_address(up)) as client:
        yield client


@asynccontextmanager
async def connect_through_proxy(
    up: TurnlogUp,
) -> AsyncGenerator[tuple[AsyncTurnlogClient, FaultProxy]]:
    """Yield a client whose connections a test may break."""
    async with run_fault_proxy(get_address(up)) as proxy:
        address = f"http://127.0.0.1:{urlsplit(proxy.url).port}"
        async with AsyncTurnlogClient(address) as client:
            yield client, proxy


def join_tokens(events: list[TurnEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TokenEvent))


async def test_client_runs_a_conversation_from_first_to_last_turn(
    turnlog: AsyncTurnlogClient, provider: OpenAIServer
) -> None:
    provider.queue_behaviours(
        ModelAnswer(tokens=("Paris.",)), ModelAnswer(tokens=("About two ", "million."))
    )
    session = await turnlog.open_session("assistant", attributes={"name": "Ada"})
    first = await session.run_turn("What is the capital of France?")
    assert (first.turn, first.status, first.reply) == (1, "completed", "Paris.")
    events = [event async for event in session.stream_turn("And how many live there?")]
    assert join_tokens(events) == "About two million."
    assert isinstance(events[-1], DoneEvent)
    assert [event async for event in session.watch_turn(2, after=events[-1].cursor)] == []
    history = await session.fetch_history()
    assert [turn.reply for turn in history.turns] == ["Paris.", "About two million."]
    assert (await session.fetch_state(at=1)).turns == 0
    assert (await session.fetch_state()).attributes["name"] == "Ada"
    await session.close_session()
    with pytest.raises(RequestConflict, match="session-closed"):
        await session.submit_turn("Are you there?")


async def test_blocking_client_runs_the_same_conversation(
    up: TurnlogUp, provider: OpenAIServer
) -> None:
    provider.queue_behaviours(
        ModelAnswer(tokens=("One ", "answer.")), ModelAnswer(tokens=("Another.",))
    )

    def converse() -> tuple[SessionClient, list[TurnEvent], list[str]]:
        with TurnlogClient(get_address(up)) as turnlog:
            session = turnlog.open_session("assistant")
            events = list(session.stream_turn("Hello"))
            assert list(session.watch_turn(1, after=events[-1].cursor)) == [], "it was at its end"
            session.run_turn("And?", user="blocking-ben")
            turnlog.set_quota("blocking-ben", requests_per_day=5)
            assert turnlog.fetch_quota("blocking-ben").limits.requests_per_day == 5
            added = turnlog.put_entry("blocking", "a", PutEntryRequest(text="An entry."))
            assert turnlog.list_entries("blocking", min_sequence=added.sequence).next is None
            assert turnlog.search_knowledge("entry", collections=["blocking"]).hits
            assert turnlog.remove_collection("blocking").removed == 1
            turnlog.set_override("blocking-ben", "uderia", "visualization", "No charts.")
            (own,) = turnlog.list_overrides("blocking-ben").overrides
            assert turnlog.fetch_override(own.user, "uderia", "visualization").text == "No charts."
            turnlog.remove_override(own.user, "uderia", "visualization")
            assert turnlog.list_overrides(own.user).overrides == ()
            assert turnlog.fetch_usage(user="nobody").total.turns == 0
            names = list[str]()
            for event in session.watch_events():
                names.append(event.name)
                if names.count("turn-completed") == 2:
                    break
            session.record_feedback(2, "up")
            first = next(session.watch_events(types=["turn-submitted", "turn-completed"]))
            assert first.name == "turn-submitted"
            ended = next(turnlog.watch_events(types=["turn-completed"]))
            assert ended.name == "turn-completed"
            return session, events, names

    session, events, names = await asyncio.to_thread(converse)
    assert join_tokens(events) == "One answer."
    stored = await up.service.list_events(session.session)
    assert len(names) == len(stored) - 1, "all but the vote"


async def test_command_with_a_lost_answer_is_executed_once(up: TurnlogUp) -> None:
    async with connect_through_proxy(up) as (turnlog, proxy):
        session = await turnlog.open_session("assistant")
        proxy.drop_server_data()
        submitting = asyncio.create_task(session.submit_turn("Hello"))
        await up.service.wait_for_event(session.session, TurnSubmitted)
        proxy.reset_faults()
        assert (await submitting).turn == 1
    await up.service.wait_for_event(session.session, TurnCompleted)
    assert len(await up.service.list_events_of_type(session.session, TurnSubmitted)) == 1


async def test_stream_resumes_where_its_connection_broke(
    up: TurnlogUp, provider: OpenAIServer
) -> None:
    gate = asyncio.Event()
    provider.queue_behaviours(ModelAnswer(tokens=("It goes ", "on ", "and on."), gates={1: gate}))
    async with connect_through_proxy(up) as (turnlog, proxy):
        session = await turnlog.open_session("assistant")
        events = list[TurnEvent]()
        async with aclosing(session.stream_turn("Hello")) as stream:
            async for event in stream:
                events.append(event)
                if isinstance(event, TokenEvent) and not gate.is_set():
                    proxy.cut_connections()
                    gate.set()
    assert join_tokens(events) == "It goes on and on."
    assert isinstance(events[-1], DoneEvent)


async def test_turn_continues_after_the_caller_stops_waiting(
    turnlog: AsyncTurnlogClient, up: TurnlogUp, provider: OpenAIServer
) -> None:
    gate = asyncio.Event()
    provider.queue_behaviours(ModelAnswer(tokens=("At ", "last."), gates={0: gate}))
    session = await turnlog.open_session("assistant")
    with pytest.raises(TurnUnsettled):
        await session.run_turn("Hello", timeout=0.05)
    gate.set()
    completed = await up.service.wait_for_event(session.session, TurnCompleted)
    assert completed.turn == 1


async def test_refusal_names_the_field_and_the_fix(turnlog: AsyncTurnlogClient) -> None:
    with pytest.raises(NotFound) as refused:
        await turnlog.open_session("asistant")
    error = refused.value
    assert (error.status, error.code, error.field) == (404, "unknown-blueprint", "blueprint")
    assert error.fix == "write `assistant`"
    with pytest.raises(InvalidRequest, match=r"attributes\.langage"):
        await turnlog.open_session("assistant", attributes={"langage": "French"})
    with pytest.raises(InvalidRequest, match=r"^invalid: reason: String.*; send at least 1 ch"):
        await turnlog.use_session("nobody").redact_reply(1, "")
    with pytest.raises(NotFound):
        await turnlog.use_session("nobody/../1").fetch_state()
    with pytest.raises(InvalidRequest, match="unknown-type"):
        _ = [event async for event in turnlog.watch_events(types=["turn-complete"])]
    with pytest.raises(NotFound, match="unknown-session"):
        _ = [event async for event in turnlog.use_session("nobody").watch_events()]


async def test_client_reads_replies_between_events_over_a_lost_connection(
    up: TurnlogUp, provider: OpenAIServer
) -> None:
    gate = asyncio.Event()
    provider.queue_behaviours(ModelAnswer(tokens=("About ", "two ", "million."), gates={1: gate}))
    async with connect_through_proxy(up) as (client, proxy):
        session = await client.open_session("assistant")
        turn = asyncio.create_task(session.run_turn("How many?"))
        pieces, names = list[str](), list[str]()
        async with aclosing(session.watch_events(tokens=True)) as watched:
            async for event in watched:
                names.append(event.name)
                if event.name == "token":
                    pieces.append(event.data["text"])
                    if not gate.is_set():
                        proxy.cut_connections()
                        gate.set()
                elif event.name == "turn-completed":
                    break
        await turn
    assert "".join(pieces) == "About two million."
    assert names.index("token") > names.index("attempt-started")


async def test_session_commands_of_the_client_take_effect(
    turnlog: AsyncTurnlogClient, provider: OpenAIServer
) -> None:
    provider.queue_behaviours(ModelAnswer(tokens=("A secret.",)), ModelAnswer(tokens=("Nothing.",)))
    session = await turnlog.open_session("assistant", session=None)
    await session.run_turn("Tell me.")
    redacted = await session.redact_reply(1, "a secret", replacement="(withheld)")
    await session.exclude_turn(1)
    (turn,) = (await session.fetch_history()).turns
    assert (turn.reply, turn.redacted, turn.excluded) == ("(withheld)", True, True)
    await session.restore_turn(1)
    fork = await session.fork_session(redacted.sequence)
    assert fork.session != session.session
    assert len((await fork.fetch_history()).turns) == 1
    await fork.run_turn("And now?")
    listed = await turnlog.list_sessions(blueprint="assistant", text="Tell me")
    assert {each.blueprint for each in listed.sessions} == {"assistant"}
    failed = await turnlog.list_sessions(text="Tell me", failed=True)
    of_another_profile = await turnlog.list_sessions(text="Tell me", profile="another")
    of_another_phase = await turnlog.list_sessions(text="Tell me", phase="another")
    assert failed.sessions == of_another_profile.sessions == of_another_phase.sessions == ()
    whole = await turnlog.list_sessions(text="Tell me", failed=False)
    assert {each.session for each in whole.sessions} >= {fork.session}
    await session.redact_turn(1, "a word", of="text", pattern="me|us", replacement="-")
    await session.redact_turn(1, "all", of="turn", spans=[(0, 4)])
    (turn,) = (await session.fetch_history()).turns
    assert (turn.text, turn.text_withheld) == ("[withheld] -.", "all")
    with pytest.raises(RequestConflict, match="nothing-to-cancel"):
        await session.cancel_turn()


async def test_session_is_described_and_found_by_its_label(turnlog: AsyncTurnlogClient) -> None:
    session = await turnlog.open_session(
        "assistant", title="Holm", labels=("python-client",), metadata={"a": 1, "b": {"c": 2}}
    )
    await session.describe_session(metadata={"a": None, "b": {"d": 3}})
    described = await session.describe_session(title="Holm by boat")
    state = await session.fetch_state()
    assert (state.sequence, state.title) == (described.sequence, "Holm by boat")
    assert (state.labels, state.metadata) == (("python-client",), {"b": {"c": 2, "d": 3}})
    await session.run_turn("Hello", meta={"id": "m1"})
    assert (await session.fetch_history()).turns[0].meta == {"id": "m1"}
    seen = {"min_sequence": f"{session.session}:{described.sequence}"}
    await turnlog.request(ClientOperation("GET", "/v1/sessions", object, query=seen))
    found = await turnlog.list_sessions(label="python-client", text="BY BOAT")
    assert [each.session for each in found.sessions] == [session.session]
    await session.describe_session(title="", labels=())
    state = await session.fetch_state()
    assert (state.title, state.labels) == (None, ())


async def test_knowledge_is_added_found_and_removed(turnlog: AsyncTurnlogClient) -> None:
    collection = "client-cases"
    form = PutEntryRequest(text="Count the sailings.", kind="case", title="How many sail?")
    added = await turnlog.put_entry(collection, "sailings", form)
    assert (added.added, added.edited) == (1, 0)
    rated = form.model_copy(update={"efficiency": 0.5})
    again = await turnlog.put_entry(collection, "sailings", rated)
    assert (again.added, again.edited) == (0, 1)
    entries = [
        ImportedEntry(id=f"harbour-{n}", text=f"Quay {n} opens at six.", source="harbour.md")
        for n in (1, 2)
    ]
    assert (await turnlog.import_entries(collection, entries)).added == 2
    imported = await turnlog.import_entries(collection, entries[:1], replace_sources=True)
    assert (imported.added, imported.removed) == (0, 1)
    page = await turnlog.list_entries(collection, limit=1, min_sequence=imported.sequence)
    rest = await turnlog.list_entries(collection, after=page.next)
    assert [each.id for each in (*page.entries, *rest.entries)] == ["harbour-1", "sailings"]
    assert rest.next is None
    entry = await turnlog.fetch_entry(collection, "sailings")
    assert (entry.kind, entry.title, entry.efficiency) == ("case", "How many sail?", 0.5)
    listed = await turnlog.list_collections(min_sequence=imported.sequence)
    (own,) = [each for each in listed.collections if each.collection == collection]
    assert (own.cases, own.documents) == (1, 1)
    found = await turnlog.search_knowledge("When does quay 1 open?", collections=[collection])
    assert found.hits[0].id == "harbour-1"
    cases = await turnlog.search_knowledge(
        "When does quay 1 open?", collections=[collection], kinds=["case"], min_efficiency=0.5
    )
    assert [each.id for each in cases.hits] == ["sailings"]
    assert (await turnlog.remove_entry(collection, "sailings")).removed == 1
    assert (await turnlog.remove_collection(collection)).removed == 1
    with pytest.raises(NotFound, match="unknown-collection"):
        await turnlog.search_knowledge("Anything?", collections=[collection])


async def test_client_sets_reads_and_removes_prompt_overrides_of_a_user(
    turnlog: AsyncTurnlogClient, provider: OpenAIServer
) -> None:
    user, blueprint = "client/eve", "uderia"
    category: OverrideCategory = "conversation_execution"
    text = "Answer Eve in one sentence. {base} {weather}"
    own = await turnlog.set_override(user, blueprint, category, text)
    assert (own.user, own.path, own.version) == (user, "conversation_execution.md", 1)
    assert (own.includes, own.unknown_names) == (("base",), ("weather",))
    assert (await turnlog.set_override(user, blueprint, category, "In one sentence.")).version == 2
    narrow = await turnlog.set_override(user, blueprint, category, "In a word.", profile="llm_only")
    assert (narrow.profile, narrow.provider, narrow.version) == ("llm_only", None, 1)
    nearest = await turnlog.set_override(
        user, blueprint, "master_system", "You work for Eve.", profile="llm_only", provider="openai"
    )
    assert (nearest.profile, nearest.provider) == ("llm_only", "openai")
    listed = await turnlog.list_overrides(user, blueprint=blueprint)
    assert [(each.path, each.version) for each in listed.overrides] == [
        ("conversation_execution.md", 2),
        ("overrides/llm_only/conversation_execution.md", 1),
        (nearest.path, 1),
    ]
    assert (await turnlog.list_overrides(user, blueprint="assistant")).overrides == ()
    session = await turnlog.open_session(blueprint, profile="llm_only")

    async def read_prompt() -> str:
        """Return what the model is sent of a turn of this user."""
        seen = len(provider.exchanges)
        provider.queue_behaviours(ModelAnswer(tokens=("Yes.",)))
        await session.run_turn("Hello", user=user)
        (exchange,) = provider.exchanges[seen:]
        return exchange.raw.decode()

    first = await read_prompt()
    assert "You work for Eve." in first
    assert "In a word." in first
    removed = await turnlog.remove_override(user, blueprint, category, profile="llm_only")
    assert removed.sequence == listed.sequence + 1
    assert (await turnlog.fetch_override(user, blueprint, category)).text == "In one sentence."
    with pytest.raises(NotFound):
        await turnlog.fetch_override(user, blueprint, category, profile="llm_only")
    second = await read_prompt()
    assert "In one sentence." in second
    assert "In a word." not in second
    with pytest.raises(InvalidRequest, match="the text is empty"):
        await turnlog.set_override(user, blueprint, category, "")


async def test_client_sets_quotas_reads_usage_and_votes_on_replies(
    turnlog: AsyncTurnlogClient, up: TurnlogUp, provider: OpenAIServer
) -> None:
    provider.queue_behaviours(
        ModelAnswer(tokens=("One.",)), ModelAnswer(tokens=("Two.",)), ModelAnswer(tokens=("3.",))
    )
    user = "client/ann"
    quota = await turnlog.set_quota(user, output_tokens=10**6, requests_per_day=1_000)
    assert (quota.allowed, quota.limits.requests_per_hour) == (True, None)
    session = await turnlog.open_session("assistant")
    await session.run_turn("One?", user=user)
    _ = [event async for event in session.stream_turn("Two?", user=user)]
    submitted = await session.submit_turn("Three?", user=user)
    _ = [event async for event in session.watch_turn(submitted.turn)]
    stored = [each.event for each in await up.service.list_events(session.session)]
    assert [each.user for each in stored if isinstance(each, TurnSubmitted)] == [user] * 3
    await session.record_feedback(1, "down", comment="Not so.")
    entry = {"collection": "manuals", "entry": "harbour"}
    with pytest.raises(InvalidRequest) as unseen:
        await session.record_feedback(1, "down", entry=entry)
    assert (unseen.value.code, unseen.value.field) == ("not-retrieved", "entry")
    judged = await session.record_feedback(1, "up")
    votes = await up.service.list_events_of_type(session.session, FeedbackGiven)
    assert [(each.turn, each.vote) for each in votes] == [(1, "down"), (1, "up")]
    await turnlog.request(
        ClientOperation(
            method="GET",
            path=f"/v1/sessions/{session.session}/calls",
            answer=object,
            query={"min_sequence": str(judged.sequence)},
        )
    )
    report = await turnlog.fetch_usage(group_by="profile", user=user)
    assert (report.total.turns, report.total.completed, report.profiles) == (3, 3, {"chat": 3})
    assert [each.group for each in report.groups] == ["chat"]
    later = await turnlog.fetch_usage(user=user, since=datetime(2100, 1, 1, tzinfo=UTC))
    assert later.total.turns == 0
    quota = await turnlog.fetch_quota(user)
    uses = {each.name: each.used for each in quota.uses}
    assert uses == {"output_tokens": report.total.output_tokens, "requests_per_day": 3}
    assert user in [each.user for each in (await turnlog.list_quotas()).quotas]
    await turnlog.set_quota(user, input_tokens=0)
    with pytest.raises(ServiceUnavailable, match="nothing is left of 0 input tokens") as refused:
        await session.run_turn("Four?", user=user)
    assert refused.value.code == "quota-exceeded"
    assert refused.value.problem["quota"]["name"] == "input_tokens"
