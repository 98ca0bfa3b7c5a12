"""Aliases of tools: names that every model takes, readable and unique."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.events.model.tool_events import ToolCalled
from turnlog.projections.blueprint.schema.tool_specs import ToolsSpec
from turnlog.projections.tools.tool_aliases import assign_aliases, list_model_names
from turnlog.projections.tools.tool_catalog import ServerOffers, ToolOffer, build_tool_catalog


@pytest.mark.parametrize(
    ("name", "alias"),
    [
        ("shop_search.docs", "shop_search_docs"),
        ("shop_repos/list files", "shop_repos_list_files"),
        ("shop_ünï_code", "shop_uni_code"),
        ("shop_a::b", "shop_a_b"),
    ],
)
def test_name_that_no_model_takes_gets_a_readable_alias(name: str, alias: str) -> None:
    assert assign_aliases([name]) == {name: alias}


@pytest.mark.parametrize("name", ["shop_look", "A-b_9", "x" * 64])
def test_name_that_models_take_has_no_alias(name: str) -> None:
    assert assign_aliases([name]) == {}


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        (f"shop_{'x' * 77}", f"shop_{'x' * 50}_"),
        ("shop_天気", "shop_"),
        ("shop_Straße", "shop_Stra_e_"),
    ],
)
def test_alias_of_a_long_name_or_of_other_letters_ends_with_a_digest(name: str, begin: str) -> None:
    alias = assign_aliases([name])[name]
    assert re.fullmatch(re.escape(begin) + "[0-9a-f]{8}", alias)
    assert len(alias) <= 64


def test_names_that_would_get_equal_aliases_stay_distinct() -> None:
    names = ["shop_a.b", "shop_a/b", "shop_a_b", "shop_c.d"]
    aliases = assign_aliases(names)
    assert len({*aliases.values(), "shop_a_b"}) == 4
    assert aliases["shop_c.d"] == "shop_c_d"
    assert assign_aliases(reversed(names)) == aliases


@given(st.lists(st.text(min_size=1, max_size=80), unique=True, max_size=8))
def test_every_name_has_a_distinct_name_that_models_take(names: list[str]) -> None:
    aliases = assign_aliases(names)
    known = [aliases.get(name, name) for name in names]
    assert len({*known}) == len(names)
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", each) for each in known)


def test_catalog_pins_the_alias_and_describes_tools_by_it() -> None:
    spec = ToolsSpec.model_validate(
        {"servers": {"shop": {"command": ["shop"], "approve": ["a.b"]}}}
    )
    offers = [ToolOffer(tool=name, description="Reads.", schema={}) for name in ("a.b", "c")]
    offers += [ToolOffer(tool="d/e", description="How.", schema={}, kind="prompt")]
    taken = build_tool_catalog("agent", spec, ServerOffers({"shop": offers}))
    pins = taken.event.tools
    assert {name: (pin.tool, pin.alias, pin.approval) for name, pin in pins.items()} == {
        "shop_a.b": ("a.b", "shop_a_b", True),
        "shop_c": ("c", None, False),
        "shop_d/e": ("d/e", "shop_d_e", False),
    }
    assert list_model_names(taken.event) == {
        "shop_a_b": "shop_a.b",
        "shop_c": "shop_c",
        "shop_d_e": "shop_d/e",
    }
    *definitions, full, names, prompts = taken.texts
    assert '"name":"shop_a_b"' in definitions[0]
    assert full == "- shop_a_b: Reads.\n- shop_c: Reads."
    assert (names, prompts) == ("- shop_a_b\n- shop_c", "- shop_d_e: How.")


def test_name_that_is_no_line_is_left_out() -> None:
    spec = ToolsSpec.model_validate({"servers": {"shop": {"command": ["shop"]}}})
    offers = [ToolOffer(tool=name, description="", schema={}) for name in ("a\nb", "x" * 257)]
    event = build_tool_catalog("agent", spec, ServerOffers({"shop": offers})).event
    assert event.tools == {}
    assert {*event.left_out.values()} == {"its name is no line of at most 256 characters"}


def test_event_of_an_earlier_release_has_no_alias() -> None:
    called = ToolCalled(turn=1, call="1.1", id="a", tool="look", arguments="{}")
    assert "alias" not in called.model_dump(exclude_defaults=True)
