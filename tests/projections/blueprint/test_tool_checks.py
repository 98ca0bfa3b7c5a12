"""What a blueprint says of tools that cannot be meant."""

from __future__ import annotations

import pytest

from turnlog.projections.blueprint.faults import FaultyBlueprint
from turnlog.projections.blueprint.source import read_source

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
            "calls.reply.tools: nobody runs the tools of a reply or a plan",
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
    ],
)
def test_what_cannot_be_meant_is_told(written: str, instead: str, fault: str) -> None:
    assert read_source(TEXT).blueprint.tools
    with pytest.raises(FaultyBlueprint) as found:
        read_source(TEXT.replace(written, instead))
    assert any(fault in str(each) for each in found.value.faults)
