"""The kinds of session that a simulation opens, and the words its model uses.

A dialogue has random policies. A lesson has a phase of choices, a dialogue that ends by signal or
by length, and a debrief that starts by itself. An agent plans and uses tools, one of which must not
run twice; a helper uses the same tools in rounds, and a guarded one waits for a person before it
pays. A team is a coordinator, whose children are a dialogue, a guarded helper and a coordinator.
"""

from __future__ import annotations

import random
from typing import Any, Final

from tests.agent_programs.agent_harness import (
    LOOP_PROFILE,
    build_agent_blueprint,
    build_loop_blueprint,
)
from tests.agent_programs.children.child_harness import build_team_blueprint
from turnlog.projections.blueprint.loading.cartridge_source import Cartridge
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.phase_specs import TRANSITION_TOOL

FORBIDDEN: Final = "forbidden"
"""A word that no reply of a guarded session may contain."""

TEXT_WINDOW: Final = 200
"""The tokens of a prompt, which some turns fill."""

MEDIA_WINDOW: Final = 1_500
"""The same where turns have pictures, each of which counts as hundreds."""

CHOICES: Final = ("share", "check")

SIGNALS: Final = ("understood", "partial")

LONGEST_DEADLINE: Final = 60.0

LESSON_CARTRIDGE: Final[Cartridge] = {
    "phases": {
        "start": "share",
        "share": {
            "kind": "static",
            "choices": {
                "share": {"next": "talk", "context_label": "shared"},
                "check": {"next": "talk"},
            },
        },
        "talk": {
            "kind": "freeform",
            "min_exchanges": 1,
            "max_exchanges": 3,
            "ai_transitions": {
                "on_success": "reveal",
                "on_partial": "reveal",
                "on_max_exchanges": "reveal",
            },
        },
        "reveal": {"kind": "debrief", "next": "end"},
        "end": {"kind": "static"},
    }
}


def draw_dialogue(chance: random.Random, window: int) -> Blueprint:
    """Draw the blueprint of a plain dialogue, whose prompts have so many tokens."""
    body = _build_body("dialogue", _draw_policies(chance), {"call": "reply"}, window)
    return Blueprint.model_validate(body)


def draw_agent(chance: random.Random) -> Blueprint:
    """Draw the blueprint of an agent; older turns are summarised."""
    plain = build_agent_blueprint().model_dump(mode="json", by_alias=True, exclude_unset=True)
    summary = {"above_tokens": 5, "keep_messages": 2, "call": "sum_up"}
    return build_agent_blueprint(
        policies=_draw_policies(chance),
        calls={**plain["calls"], "sum_up": {"messages": [{"history": "older"}]}},
        history={"recent": {"summary": summary}, "older": {"of": "selected"}},
    )


def draw_helper(chance: random.Random) -> Blueprint:
    """Draw the blueprint of a helper, whose model calls tools until it answers."""
    profile = {**LOOP_PROFILE, "max_rounds": 3}
    return build_loop_blueprint(policies=_draw_policies(chance), profiles={"agent": profile})


def draw_guarded_helper(chance: random.Random) -> Blueprint:
    """Draw the blueprint of a helper that needs a person's approval of its payments."""
    profile = {**LOOP_PROFILE, "max_rounds": 3}
    shop = {"command": ["shop"], "idempotent": ["look"], "approve": ["pay"]}
    tools = {"servers": {"shop": shop}, "approval_seconds": chance.choice((2.0, 10.0, 40.0))}
    return build_loop_blueprint(
        policies=_draw_policies(chance), profiles={"agent": profile}, tools=tools
    )


CHILD_PROFILES: Final = ("thinker", "seeker", "deputy")
"""The children of a team; the deputy asks the thinker."""


def draw_team(chance: random.Random, *, has_matter: bool = False) -> Blueprint:
    """Draw the blueprint of a coordinator with children.

    With a matter, its turns have an input of that name, which the thinker and the deputy are given.
    """
    layers: dict[str, Any] = {"rules": {"text": "Help.", "keep": "always"}}
    asked = ["matter", "input"] if has_matter else ["input"]
    messages = [{"system": ["rules"]}, {"history": "recent"}, {"user": asked}]
    given = {"parent_inputs": ["matter"]} if has_matter else {}
    calls = {"reply": (), "work": ("all",), "coordinate": ("children",)}
    coordinator = {"program": "coordinator", "call": "coordinate", "max_rounds": 2}
    children = {
        "failed": chance.choice(("report", "report", "fail")),
        "approval": chance.choice(("wait", "report")),
        "seconds": chance.choice((5.0, 30.0)),
        "most_at_once": 3,
    }
    shop = {"command": ["shop"], "idempotent": ["look"], "approve": ["pay"]}
    return build_team_blueprint(
        inputs={"matter": {"type": "text"}} if has_matter else {},
        layers=layers | ({"matter": {"input": "matter"}} if has_matter else {}),
        policies={**_draw_policies(chance), "children": children},
        calls={name: {"messages": messages, "tools": tools} for name, tools in calls.items()},
        tools={"servers": {"shop": shop}, "approval_seconds": chance.choice((2.0, 20.0))},
        profiles={
            "head": {"default": True, **coordinator, "children": list(CHILD_PROFILES)},
            "thinker": {"call": "reply", "summary": "Thinks.", **given},
            "seeker": {"program": "loop", "call": "work", "max_rounds": 2, "summary": "Seeks."},
            "deputy": {
                **coordinator,
                "children": ["thinker"],
                "summary": "Asks others.",
                **given,
            },
        },
    )


def has_children(blueprint: Blueprint) -> bool:
    """Return whether a blueprint is that of a team."""
    return any(profile.children for profile in blueprint.profiles.values())


def has_approvals(blueprint: Blueprint) -> bool:
    """Return whether a tool of a blueprint needs approval."""
    servers = blueprint.tools.servers.values() if blueprint.tools else ()
    return any(server.approve for server in servers)


def draw_lesson(chance: random.Random, window: int) -> Blueprint:
    """Draw the blueprint of a lesson, whose prompts have so many tokens."""
    body = _build_body("lesson", _draw_policies(chance), {"call": "by_phase"}, window)
    messages = {"system": ["rules"]}, {"history": "whole"}
    body["calls"]["debrief"] = {"messages": messages, "input": "none", "budget": "window"}
    body["calls"]["reply"]["tools"] = [TRANSITION_TOOL]
    body["history"]["whole"] = {"all": True}
    phases = {
        "from": "cartridge.phases",
        "calls": {"freeform": "reply", "debrief": "debrief"},
        "signals": {"understood": "on_success", "partial": "on_partial"},
    }
    cartridge = {"file": "lesson.yaml", "requires": ["phases"]}
    return Blueprint.model_validate({**body, "phases": phases, "cartridge": cartridge})


def _draw_policies(chance: random.Random) -> dict[str, Any]:
    guarded = chance.random() < 0.3
    rules = [{"name": "words", "pattern": FORBIDDEN}] if guarded else []
    return {
        "second_submit": chance.choice(("queue", "queue", "reject", "interrupt")),
        "queue_limit": chance.choice((1, 100)),
        "deadline_seconds": chance.choice((20.0, LONGEST_DEADLINE)),
        "max_claims": chance.choice((3, 10)),
        "retries": {"max": chance.choice((0, 4)), "base_seconds": 0.5},
        "safety": {"hold_back": chance.choice(("none", "sentence", "reply")), "rules": rules},
    }


def _build_body(
    name: str, policies: dict[str, Any], profile: dict[str, Any], window: int
) -> dict[str, Any]:
    return {
        "blueprint": name,
        "version": 1,
        "layers": {"rules": {"text": "Be brief.", "keep": "always"}},
        "calls": {
            "reply": {
                "messages": [{"system": ["rules"]}, {"history": "recent"}, {"user": ["input"]}],
                "budget": "window",
            }
        },
        "history": {"recent": {}},
        "budget": {
            "window": {
                "tokens": window,
                "ladder": [{"drop_oldest_pairs": {"history": "recent"}}],
            }
        },
        "policies": policies,
        "profiles": {"one": {"default": True, **profile}},
    }
