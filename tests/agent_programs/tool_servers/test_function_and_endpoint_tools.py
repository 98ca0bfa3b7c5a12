"""Tools without MCP: functions that a package registers, and endpoints over plain HTTP."""

from __future__ import annotations

import json
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from importlib import import_module
from typing import Any, Literal

import pytest
import pytest_asyncio

from tests.agent_programs.agent_harness import (
    AgentHarness,
    RoundKeyedModel,
    build_agent_blueprint,
    build_loop_blueprint,
)
from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.agent_programs.turns.test_turn_crashes import run_crashing_turn
from tests.resolvers.resolver_server import ResolverServer, start_resolver_server
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.model.tool_events import ToolReturned, ToolsSnapshotted
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.tool_specs import FunctionServerSpec
from turnlog.services.extensions.plugins import read_entry_points
from turnlog.services.worker.tools import function_and_endpoint_tools
from turnlog.services.worker.tools.worker_tool_servers import WorkerToolServers

pytestmark = pytest.mark.asyncio(loop_scope="module")

PACKAGE = """\
import os
import threading
from typing import Annotated

from pydantic import BaseModel, Field

from turnlog.services.extensions.tool_context import get_tool_context
from turnlog.services.extensions.tool_functions import ToolError, ToolFunction

runs = []
keys = []
ended = threading.Event()


class Thing(BaseModel):
    name: str


def look(thing: Thing, limit: Annotated[int, Field(ge=1, description="How many.")] = 5):
    '''Look for a thing.'''
    keys.append(get_tool_context().key)
    runs.append(("look", threading.current_thread() is threading.main_thread()))
    return [{"name": thing.name, "stock": 3}]


async def pay(what: str) -> str:
    '''Pay for a thing.'''
    runs.append(("pay", threading.current_thread() is threading.main_thread()))
    return f"{what} is paid"


def refuse(why: str) -> str:
    raise ToolError(why)


def break_off(what: str) -> str:
    raise ValueError(f"no {what} with {os.environ['STOCK_TOKEN']}")


def leave() -> None:
    raise SystemExit(1)


def wait() -> None:
    ended.wait()


def tell_thread():
    context = get_tool_context()
    return [context.session, context.turn, context.key, dict(context.attributes)]


async def tell_loop():
    return tell_thread()


def scribble():
    return {1: object()}


reading = ToolFunction(look, read_only=True)
writing = ToolFunction(
    lambda **given: sorted(given),
    description="Write what is given.",
    parameters={"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    idempotent=True,
)
"""

ENTRY_POINTS = """\
[turnlog.tools]
look = stock_room_tools:reading
pay = stock_room_tools:pay
write = stock_room_tools:writing
refuse = stock_room_tools:refuse
break_off = stock_room_tools:break_off
leave = stock_room_tools:leave
wait = stock_room_tools:wait
scribble = stock_room_tools:scribble
tell_thread = stock_room_tools:tell_thread
tell_loop = stock_room_tools:tell_loop
gone = stock_room_tools_that_are_gone:look
"""

FUNCTIONS = [
    "look",
    "pay",
    "write",
    "refuse",
    "break_off",
    "leave",
    "wait",
    "scribble",
    "tell_thread",
    "tell_loop",
]

OWN = {"own": {"functions": FUNCTIONS}}


@pytest.fixture(scope="module", autouse=True)
def _registered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Register the functions as an installer leaves a package."""
    folder = tmp_path_factory.mktemp("packages")
    facts = folder / "stock_room_tools-1.0.dist-info"
    facts.mkdir()
    (folder / "stock_room_tools.py").write_text(PACKAGE)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: stock-room-tools\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(ENTRY_POINTS)
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(folder)
        patched.setenv("STOCK_TOKEN", "open sesame")
        read_entry_points.cache_clear()
        yield
        import_module("stock_room_tools").ended.set()
        del sys.modules["stock_room_tools"]
    read_entry_points.cache_clear()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def endpoint() -> AsyncIterator[ResolverServer]:
    async with start_resolver_server() as server:
        yield server


@pytest.fixture
def real(platform: AgentService) -> AgentService:
    """The service with a worker that calls real tools."""
    platform.worker.servers = WorkerToolServers()
    return platform


def list_runs() -> list[tuple[str, bool]]:
    """Return the functions that ran since the last time, and whether in the main thread."""
    runs: list[tuple[str, bool]] = import_module("stock_room_tools").runs
    found, runs[:] = [*runs], []
    return found


def build_endpoint(url: str, **changes: object) -> dict[str, Any]:
    properties = {"what": {"type": "string"}}
    parameters = {"type": "object", "properties": properties, "required": ["what"]}
    tool = {"url": url, "description": "Order a thing.", "parameters": parameters, **changes}
    return {"shop": {"endpoints": {"order": tool}}}


async def call_tool(
    real: AgentService, servers: dict[str, Any], tool: str, **arguments: object
) -> ToolReturned:
    """Run a turn whose model calls one tool, and return what came of it."""
    session = await real.open_session(build_loop_blueprint(tools={"servers": servers}))
    called = answer_with_tool_calls((tool, arguments))
    await real.complete_turn(session, called, answer_with_text("So."))
    (returned,) = await real.load_events(session, ToolReturned)
    return returned


def get_text(returned: ToolReturned) -> str:
    return str(returned.model_dump()["text"]["text"])


async def test_functions_and_endpoints_are_offered_pinned_and_run_in_a_loop(
    real: AgentService, endpoint: ResolverServer
) -> None:
    servers = {**OWN, **build_endpoint(endpoint.url, idempotent=True)}
    session = await real.open_session(build_loop_blueprint(tools={"servers": servers}))
    endpoint.set_behaviours({"order": 17})
    list_runs()
    await real.complete_turn(
        session,
        answer_with_tool_calls(
            ("own_look", {"thing": {"name": "hammer"}}),
            ("own_pay", {"what": "hammer"}),
            ("shop_order", {"what": "hammer"}),
            ("own_write", {"a": 1}),
        ),
        answer_with_text("It is yours."),
    )
    assert list_runs() == [("look", False), ("pay", True)]
    assert endpoint.requests[-1] == {"what": "hammer"}
    results = [each["content"] for each in real.bodies[1]["messages"] if each["role"] == "tool"]
    assert results == ['[{"name":"hammer","stock":3}]', "hammer is paid", '{"order": 17}', '["a"]']
    offered = {each["function"]["name"]: each["function"] for each in real.bodies[0]["tools"]}
    look = offered["own_look"]
    assert look["description"] == "Look for a thing."
    assert look["parameters"]["properties"]["limit"]["description"] == "How many."
    assert look["parameters"]["required"] == ["thing"]
    assert offered["shop_order"]["description"] == "Order a thing."
    (snapshot,) = await real.load_events(session, ToolsSnapshotted)
    repeatable = {name for name, pin in snapshot.tools.items() if pin.idempotent}
    assert repeatable == {"own_look", "own_write", "shop_order"}


async def test_tool_receives_session_turn_attributes_and_a_unique_call_key(
    real: AgentService, endpoint: ResolverServer
) -> None:
    servers = {**OWN, **build_endpoint(endpoint.url)}
    session = await real.open_session(build_loop_blueprint(tools={"servers": servers}))
    since = len(endpoint.heads)
    await real.complete_turn(session, answer_with_text("Yes?"))
    same = ("shop_order", {"what": "hammer"})
    called = answer_with_tool_calls(same, same, ("own_tell_thread", {}), ("own_tell_loop", {}))
    await real.complete_turn(session, called, answer_with_text("So."))
    first, second = endpoint.heads[since:]
    *_, in_thread, on_loop = [
        json.loads(each["content"]) for each in real.bodies[2]["messages"] if each["role"] == "tool"
    ]
    for head in (first, second):
        assert (head["turnlog-session"], head["turnlog-turn"]) == (session, "2")
    keys = {first["idempotency-key"], second["idempotency-key"], in_thread[2], on_loop[2]}
    assert len(keys) == 4
    attributes = (await real.fetch_json(f"/v1/sessions/{session}"))["attributes"]
    for told in (in_thread, on_loop):
        assert (told[0], told[1], told[3]) == (session, 2, attributes)


async def test_functions_can_be_tools_of_a_plan(real: AgentService) -> None:
    session = await real.open_session(build_agent_blueprint(tools={"servers": OWN}))
    await real.complete_turn(
        session,
        answer_with_plan(("Pay for it.", ["own_pay"])),
        answer_with_tool_calls(("own_pay", {"what": "hammer"})),
        answer_with_text("It is yours."),
    )
    (returned,) = await real.load_events(session, ToolReturned)
    assert (returned.outcome, "hammer is paid" in get_text(returned)) == ("answered", True)
    assert any("own_look: Look for a thing." in text for text in real.get_request_texts(0))


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("look", {"thing": "hammer"}, '`type` is "object"'),
        ("look", {"thing": {"name": "hammer"}, "limit": 0}, "limit: `minimum` is 1"),
        ("look", {}, '`required` is ["thing"]'),
        ("pay", {"what": "a", "more": 1}, "`additionalProperties` is false"),
        ("write", {"a": "1"}, 'a: `type` is "integer"'),
    ],
)
async def test_function_is_not_called_with_arguments_that_violate_its_schema(
    real: AgentService, tool: str, arguments: dict[str, Any], reason: str
) -> None:
    list_runs()
    returned = await call_tool(real, OWN, f"own_{tool}", **arguments)
    assert (returned.outcome, list_runs()) == ("failed", [])
    assert "it was not called: " in returned.detail
    assert reason in returned.detail
    assert reason in get_text(returned)


async def test_exception_of_a_function_is_reported_by_its_type_unless_meant_for_the_model(
    real: AgentService,
) -> None:
    refused = await call_tool(real, OWN, "own_refuse", why="the room is closed")
    assert (refused.outcome, refused.detail) == ("failed", "the room is closed")
    assert "failed: the room is closed" in get_text(refused)
    broken = await call_tool(real, OWN, "own_break_off", what="hammer")
    assert broken.outcome == "failed"
    assert get_text(broken).endswith("failed: break_off raised ValueError")
    assert broken.detail.splitlines()[-1] == "ValueError: no hammer with ••••"
    left = await call_tool(real, OWN, "own_leave")
    assert (left.outcome, "raised SystemExit" in get_text(left)) == ("failed", True)
    unwritten = await call_tool(real, OWN, "own_scribble")
    assert (unwritten.outcome, "cannot be written as JSON" in get_text(unwritten)) == ("lost", True)


async def test_function_over_its_time_limit_is_lost_and_the_turn_continues(
    real: AgentService,
) -> None:
    spec = FunctionServerSpec(functions=("wait",))
    await real.worker.servers.list_offers("own", spec)  # or the import would count as its time
    tools = {"servers": {"own": {"functions": ["wait"]}}, "seconds": 2}
    session = await real.open_session(build_loop_blueprint(tools=tools))
    called = answer_with_tool_calls(("own_wait", {}))
    await real.complete_turn(session, called, answer_with_text("It takes long."))
    (returned,) = await real.load_events(session, ToolReturned)
    assert returned.outcome == "lost"
    assert "no answer in 2 s; it may have been done" in get_text(returned)


@pytest.mark.parametrize(
    ("behaviour", "outcome", "reason"),
    [
        (b"plain words", "answered", "plain words"),
        (404, "failed", "answered HTTP 404: 404"),
        (303, "lost", "answered HTTP 303"),
        (500, "lost", "answered HTTP 500"),
        ("hang up", "lost", "shop: RemoteProtocolError"),
        (b"x" * 2_000, "lost", "answered more than 1000 bytes"),
    ],
)
async def test_endpoint_response_decides_whether_a_call_failed_or_is_lost(
    real: AgentService,
    endpoint: ResolverServer,
    monkeypatch: pytest.MonkeyPatch,
    behaviour: Any,  # noqa: ANN401 - as the server takes it
    outcome: str,
    reason: str,
) -> None:
    monkeypatch.setattr(function_and_endpoint_tools, "MAX_RESULT_BYTES", 1_000)
    endpoint.set_behaviours(behaviour)
    returned = await call_tool(real, build_endpoint(endpoint.url), "shop_order", what="hammer")
    assert returned.outcome == outcome
    assert reason in get_text(returned)
    endpoint.set_behaviours(behaviour)
    servers = build_endpoint(endpoint.url, read_only=True)
    again = await call_tool(real, servers, "shop_order", what="hammer")
    assert again.outcome == ("answered" if outcome == "answered" else "failed")


async def test_endpoint_with_invalid_arguments_is_not_called_and_unreachable_one_fails(
    real: AgentService, endpoint: ResolverServer
) -> None:
    before = len(endpoint.requests)
    refused = await call_tool(real, build_endpoint(endpoint.url), "shop_order", what=1)
    assert (refused.outcome, len(endpoint.requests)) == ("failed", before)
    assert 'it was not called: what: `type` is "string"' in get_text(refused)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # nobody else can listen there
        gone = build_endpoint(f"http://127.0.0.1:{silent.getsockname()[1]}/")
        unreached = await call_tool(real, gone, "shop_order", what="hammer")
    assert (unreached.outcome, unreached.detail) == (
        "failed",
        "shop: nobody listens at its address",
    )


@pytest.mark.parametrize(
    ("servers", "line"),
    [
        ({"own": {"functions": ["gone"]}}, "No module named 'stock_room_tools_that_are_gone'"),
        (
            build_endpoint("http://127.0.0.1:1/", headers_from={"Authorization": "NOT_SET_HERE"}),
            "the variable NOT_SET_HERE is not set; set it for the worker",
        ),
    ],
)
async def test_unusable_tool_fails_the_turn_at_once_with_its_reason(
    real: AgentService, servers: dict[str, Any], line: str
) -> None:
    session = await real.open_session(build_loop_blueprint(tools={"servers": servers}))
    assert (await real.submit_turn(session))["status"] == "failed"
    (ended,) = await real.load_events(session, AttemptEnded)
    assert ended.fault is not None
    assert (ended.fault.code, ended.fault.retryable) == ("tools_not_started", False)
    assert line in ended.fault.detail.splitlines()[-1]


async def test_session_with_unregistered_function_is_refused_at_opening(real: AgentService) -> None:
    kind = build_loop_blueprint(tools={"servers": {"own": {"functions": ["lok"]}}})
    (real.folder / kind.blueprint).mkdir(exist_ok=True)
    with pytest.raises(AssertionError, match="unknown-tool"):
        await real.open_session(kind)


class StockRoomModel(RoundKeyedModel):
    """The model of the crash walk, with the functions as its tools."""

    server = "own"
    arguments_of_look = '{"thing": {"name": "hammer"}}'


def build_stock_room() -> Blueprint:
    return build_loop_blueprint(tools={"servers": OWN})


@pytest.mark.parametrize("when", ["before", "after"])
async def test_function_that_checks_for_its_first_run_never_runs_twice_after_a_crash(
    when: Literal["before", "after"],
) -> None:
    outcomes, repeated = Counter[str](), 0
    keys: list[str] = import_module("stock_room_tools").keys
    for at in range(1, 13):
        shop = AgentHarness(kind=build_stock_room())
        shop.house.servers = WorkerToolServers()
        await shop.open_session()
        list_runs()
        keys.clear()
        assert await run_crashing_turn(shop, at, when, StockRoomModel)
        ran = Counter(name for name, _ in list_runs())
        assert ran["pay"] <= 1
        (paid,) = [each for each in shop.list_events(ToolReturned) if each.tool == "own_pay"]
        assert (paid.outcome == "answered") <= (ran["pay"] == 1)
        outcomes[paid.outcome] += 1
        assert len(set(keys)) == 1
        repeated += len(keys) - 1
    assert set(outcomes) == {"answered", "lost"}
    assert bool(repeated) is (when == "before")  # where a result was not recorded, it runs again
