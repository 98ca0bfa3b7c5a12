"""Faults of tools in a blueprint."""

from __future__ import annotations

import pytest

from turnlog.projections.blueprint.loading.blueprint_source import load_blueprint_source
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint

TEXT = """
blueprint: agent
version: 1
layers: {rules: {text: "Answer."}, told: {prompts: all}}
calls:
  plan: {messages: [{system: [rules, told]}, {user: [input]}]}
  act: {messages: [{user: [input]}], tools: [for_step]}
  reply: {messages: [{user: [input]}]}
tools: {servers: {time: {command: [mcp-server-time]}}}
profiles: {agent: {default: true, program: tools, plan: plan, act: act, call: reply}}
"""


@pytest.mark.parametrize(
    ("written", "instead", "fault"),
    [
        (
            "reply: {messages: [{user: [input]}]}",
            "reply: {messages: [{user: [input]}], tools: [all]}",
            "calls.reply.tools: a plan, or a reply of the program `tools`, calls no tools",
        ),
        (
            "profiles: {",
            "profiles: {plain: {call: act}, ",
            "calls.act.tools: no step is taken by it, so there are no tools of a step; write `tool",
        ),
        (
            "call: reply}",
            "call: reply, tools: none}",
            "the program `tools` takes tools, so it cannot say `tools: none`",
        ),
        (
            "tools: {servers: {time: {command: [mcp-server-time]}}}\n",
            "",
            "layers.told.prompts: there are no tools",
        ),
        ("command:", "url: ftp://nowhere, command:", "tools.servers.time"),
        (
            "call: reply}",
            "call: plan}",
            "profiles.agent.plan: `plan` writes the reply, which would",
        ),
        ("plan: plan,", "plan: act,", "profiles.agent.plan: `act` takes the steps, so it gives no"),
        (
            "call: reply}",
            "call: act}",
            "profiles.agent.call: `act` takes the steps, so it gives no",
        ),
        (", tools: [for_step]", "", "calls.act.tools: profile `agent` takes its steps by it, and"),
        (
            "[for_step]",
            "[]",
            "takes its steps by it, and it offers no tools; write `tools: [for_st",
        ),
        (
            "command: [mcp-server-time]",
            "command: [mcp-server-time], only: [a, b], except: [b]",
            "tools.servers.time.except: `b` stands in `only` as well; keep one of the two",
        ),
        ("{time: {command: [mcp-server-time]}}", "{}", "tools.servers: there is no server; add"),
        (
            "command: [mcp-server-time]",
            'command: [mcp-server-time], env_from: ["A=B"]',
            "tools.servers.time.env_from.0: `A=B` is no variable; name one of the environment",
        ),
        (
            "command: [mcp-server-time]",
            'url: "http://shop.example", headers_from: {"Auth: x": SHOP}',
            "`Auth: x` is no header; write its name alone",
        ),
        (
            "command: [mcp-server-time]",
            'url: "http://shop.example", headers_from: {Auth: "two words"}',
            "tools.servers.time.headers_from.Auth: `two words` is no variable",
        ),
        (
            "command: [mcp-server-time]",
            "functions: [look_up, pay], approve: [pya]",
            "tools.servers.time.approve: server `time` has no tool `pya`; write `pay`",
        ),
        (
            "command: [mcp-server-time]",
            "endpoints: {pay: {url: 'http://shop.example', description: Pay.}}, idempotent: [look]",
            "tools.servers.time.idempotent: server `time` has no tool `look`; use one of: pay",
        ),
    ],
)
def test_invalid_tool_configuration_is_a_fault(written: str, instead: str, fault: str) -> None:
    assert load_blueprint_source(TEXT).blueprint.tools
    with pytest.raises(FaultyBlueprint) as found:
        load_blueprint_source(TEXT.replace(written, instead))
    assert any(fault in str(each) for each in found.value.faults)


@pytest.mark.parametrize(
    "address",
    ["https://ada:hush@x.example/mcp", "https://x.example/mcp?token=hush", "http://x/#hush"],
)
def test_secret_in_an_address_is_refused_without_repeating_it(address: str) -> None:
    with pytest.raises(FaultyBlueprint) as found:
        load_blueprint_source(TEXT.replace("command: [mcp-server-time]", f'url: "{address}"'))
    assert "hush" not in str(found.value)
    (fault,) = found.value.faults
    assert fault.path == "tools.servers.time.url"
    assert fault.fix == "write `https://host/path`, without a user, a query or a fragment"


@pytest.mark.parametrize(
    ("written", "instead", "fix"),
    [
        ("tools: [for_step]", "output: {shema: plan}", "write `schema`"),
        ("command: [", "colour: red, command: [", "use one of: approve, auto_approve, command, "),
        (
            "call: reply}}",
            "call: reply}}\nphases: {x: 1}",
            "calls, can_see, carry, from, meanings, order,",
        ),
        (
            "call: reply}}",
            "call: reply}}\nbudget: {window: {tokens: 1, counter: provider}}",
            "counter is one of: `chars_per_token`, `tiktoken`; write one of them: `chars_per_tok",
        ),
    ],
)
def test_fix_uses_the_keys_of_the_blueprint(written: str, instead: str, fix: str) -> None:
    assert written in TEXT
    with pytest.raises(FaultyBlueprint) as found:
        load_blueprint_source(TEXT.replace(written, instead))
    assert any(fix in str(each) for each in found.value.faults)


def test_options_may_name_every_listed_tool_and_all_tools_of_a_server_that_lists_its_own() -> None:
    listed = "functions: [look, pay], only: [pay, look], approve: [all], idempotent: [look]"
    for server in (listed, "command: [mcp-server-time], approve: [pya]"):
        written = TEXT.replace("command: [mcp-server-time]", server)
        assert load_blueprint_source(written).blueprint.tools
