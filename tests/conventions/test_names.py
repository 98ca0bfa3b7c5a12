"""Names follow the rules of CONTRIBUTING.md, with the exceptions in `allowed.toml`."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from tests.conventions.source_tree import (
    SourceFunction,
    iterate_classes,
    iterate_functions,
    load_allowed,
    load_modules,
)

VERBS = frozenset((Path(__file__).parent / "verbs.txt").read_text().split())
BARE_FORM = re.compile(r"_*[A-Za-z][a-z]{2,}(?:ed|ing)")
NAMELESS = {"base", "common", "data", "helper", "helpers", "impl", "manager", "misc", "utils"}
SHARED_NAMES = {"app", "main", "env"}
"""Base names that several packages may have: entry points."""

NOT_NAMED_HERE = {"property", "cached_property", "setter", "overload", "field_validator"} | {
    "model_validator",
    "field_serializer",
    "computed_field",
}


RULES = ("verb", "participle", "base-name", "function-length")

FUNCTIONS_PER_EXCEPTION = 250
"""A rule has at most one exception in so many functions."""

TOOLS = "turnlog.services.sample_servers.harbour"
"""A sample server whose functions are its tools: their names are what a model sees."""


def begins_with_verb(function: SourceFunction) -> bool:
    name = function.node.name.strip("_")
    return name.partition("_")[0] in VERBS


def is_named_by_us(function: SourceFunction) -> bool:
    dunder = function.node.name.startswith("__") and function.node.name.endswith("__")
    is_tool = function.module == TOOLS
    return not dunder and not is_tool and not function.decorators & NOT_NAMED_HERE


def test_functions_begin_with_a_verb() -> None:
    nouns = {
        function.place
        for function in iterate_functions()
        if is_named_by_us(function) and not begins_with_verb(function)
    }
    assert nouns == load_allowed("verb")


def test_no_function_class_or_module_is_a_bare_participle_or_gerund() -> None:
    functions = {each.place: each.node.name for each in iterate_functions()}
    classes = {f"{module}:{name}": name for module, name in iterate_classes()}
    modules = {module: module.rpartition(".")[2] for module in load_modules()}
    named = functions | classes | modules
    bare = {place for place, name in named.items() if BARE_FORM.fullmatch(name)}
    assert bare == load_allowed("participle")


def test_class_names_are_unique() -> None:
    places = defaultdict[str, set[str]](set)
    for module, name in iterate_classes():
        places[name].add(module)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def test_module_base_names_have_one_meaning() -> None:
    places = defaultdict[str, list[str]](list)
    for module in load_modules():
        places[module.rpartition(".")[2]].append(module)
    packages = {path.parent.name for path in load_modules().values()}
    shared = (
        {name for name, modules in places.items() if len(modules) > 1} - packages - SHARED_NAMES
    )
    assert shared == load_allowed("base-name")


def test_lists_of_exceptions_only_shrink() -> None:
    most = sum(1 for _ in iterate_functions()) / FUNCTIONS_PER_EXCEPTION
    counts = {rule: len(load_allowed(rule)) for rule in RULES}
    assert {rule: count for rule, count in counts.items() if count > most} == {}


def test_no_module_has_a_meaningless_name() -> None:
    words = {module: set(module.rpartition(".")[2].split("_")) for module in load_modules()}
    assert [module for module, used in words.items() if used & NAMELESS] == []
