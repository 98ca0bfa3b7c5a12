"""What packages register: sources, steps, checks, resolvers, tools, rerankers, keyrings, embedders.

A name that no package registers is refused before a session opens. Entry points are loaded only
when they are used, so a broken package does not affect sessions that do without it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import Final, Protocol, cast

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.events.seals.keyrings import SealKeyring
from turnlog.projections.blueprint.schema.blueprint_model import (
    Blueprint,
    list_retrieval_settings,
)
from turnlog.projections.blueprint.schema.layer_specs import SourceLayer
from turnlog.projections.blueprint.schema.lookups.resolver_specs import RegisteredResolverSpec
from turnlog.projections.blueprint.schema.policy_specs import SafetyCheckRule
from turnlog.projections.blueprint.schema.tool_specs import FunctionServerSpec
from turnlog.projections.blueprint.validation.blueprint_faults import find_near_word, format_words
from turnlog.projections.knowledge.search_port import KnowledgeHit
from turnlog.projections.prompt.sources.layer_content import ApplyRegisteredStep, LayerBlock
from turnlog.projections.prompt.sources.session_material import (
    InstalledExtensions,
    list_registered_steps,
)
from turnlog.services.extensions.resolver_contract import Resolver
from turnlog.services.extensions.tokenizers import SHIPPED_VOCABULARIES, TiktokenVocabulary
from turnlog.services.extensions.tool_functions import ToolFunction, describe_function

SOURCE_GROUP: Final = "turnlog.sources"

CHECK_GROUP: Final = "turnlog.checks"

RESOLVER_GROUP: Final = "turnlog.resolvers"

STEP_GROUP: Final = "turnlog.steps"

TOOL_GROUP: Final = "turnlog.tools"

EMBEDDER_GROUP: Final = "turnlog.embedders"
RERANKER_GROUP: Final = "turnlog.rerankers"

KEYRING_GROUP: Final = "turnlog.keyrings"

SafetyCheck = Callable[[str, JsonValue], str | Awaitable[str | None] | None]
"""Given a text and the rule's argument, return what is wrong with the text, or None.

The text is what is about to be published with up to `MATCH_REACH` characters before it, and once
the whole reply. A check that waits for anything is an `async def`; any other runs in a thread of
its own. Readers see the reason, so it must not quote the text. A check that raises has not passed
the text: the attempt fails and is retried.
"""


Reranker = Callable[[str, Sequence[KnowledgeHit]], Sequence[float] | Awaitable[Sequence[float]]]
"""Given what was sought and what the index found, return a score for each entry, best highest.

It runs in the event loop of the worker, so one that waits or computes long is an `async def`.
"""


KeyringFactory = Callable[[str, str | None], SealKeyring]
"""Given the address in `TURNLOG_KEYRING` and the token, return a keyring, with no request yet."""


class LayerSource(Protocol):
    """Supplies a layer's text for a session at its first call."""

    async def __call__(self, session: str, attributes: Mapping[str, JsonValue]) -> str:
        """Return the text, which may be empty."""
        ...


def load_check(name: str) -> SafetyCheck:
    """Load a check; raise `Refused` when no package registers it."""
    return cast("SafetyCheck", load_entry_point(CHECK_GROUP, name))


def load_source(name: str) -> LayerSource:
    """Load a layer source; raise `Refused` when no package registers it."""
    return cast("LayerSource", load_entry_point(SOURCE_GROUP, name))


def load_resolver(name: str) -> Resolver:
    """Load a resolver; raise `Refused` when no package registers it."""
    return cast("Resolver", load_entry_point(RESOLVER_GROUP, name))


def load_step(name: str) -> ApplyRegisteredStep:
    """Load a ladder step; raise `Refused` when no package registers it."""
    return cast("ApplyRegisteredStep", load_entry_point(STEP_GROUP, name))


def load_reranker(name: str) -> Reranker:
    """Load a reranker; raise `Refused` when no package registers it."""
    return cast("Reranker", load_entry_point(RERANKER_GROUP, name))


def load_keyring_factory(name: str) -> KeyringFactory:
    """Load what makes keyrings; raise `Refused` when no package registers it."""
    return cast("KeyringFactory", load_entry_point(KEYRING_GROUP, name))


def load_tool(name: str) -> ToolFunction:
    """Load a tool; raise `Refused` when no package registers it, or it cannot be called."""
    return describe_function(load_entry_point(TOOL_GROUP, name), name)


def check_steps_registered(blueprint: Blueprint) -> None:
    """Check that all steps of a blueprint's ladders can be loaded; raise `Refused`."""
    for name in list_registered_steps(blueprint):
        load_step(name)


def check_plugins_registered(blueprint: Blueprint) -> None:
    """Check that everything a blueprint names is registered; raise `Refused`."""
    if isinstance(blueprint.resolver, RegisteredResolverSpec):
        _find_entry_point(RESOLVER_GROUP, blueprint.resolver.source)
    for layer in blueprint.layers.values():
        if isinstance(layer, SourceLayer):
            _find_entry_point(SOURCE_GROUP, layer.source)
    for rule in blueprint.policies.safety.rules:
        if isinstance(rule, SafetyCheckRule):
            _find_entry_point(CHECK_GROUP, rule.check)
    for name in list_registered_steps(blueprint):
        _find_entry_point(STEP_GROUP, name)
    for settings in list_retrieval_settings(blueprint):
        if isinstance(settings.rerank, str):
            _find_entry_point(RERANKER_GROUP, settings.rerank)
    for server in blueprint.tools.servers.values() if blueprint.tools else ():
        if isinstance(server, FunctionServerSpec):
            for name in server.functions:
                _find_entry_point(TOOL_GROUP, name)


def load_entry_point(group: str, name: str) -> object:
    """Load what a package registers in a group; raise `Refused` when none registers the name."""
    return _find_entry_point(group, name).load()


def _find_entry_point(group: str, name: str) -> metadata.EntryPoint:
    found = list_entry_points(group)
    if name not in found:
        kind = group.removeprefix("turnlog.").removesuffix("s")
        detail = f"no package registers a {kind} {name[:80]!r}"
        fix = _suggest_entry_point(group, name, found)
        raise Refused(f"unknown-{kind}", detail, field=kind, fix=fix)
    return found[name]


def _suggest_entry_point(group: str, name: str, registered: Iterable[str]) -> str:
    if near := find_near_word(name, registered):
        return f"write `{near}`"
    fix = f"install its package, with the entry point group `{group}`, where this service runs"
    known = format_words(sorted(registered))
    return f"{fix}; registered are: {known}" if known else fix


# Looking for packages reads the disk, and the installed packages do not change in a process.
@cache
def read_entry_points() -> Mapping[str, Mapping[str, metadata.EntryPoint]]:
    """Return the entry points of our groups, by group and name, of all packages. Blocks."""
    found = metadata.entry_points()
    groups = [group for group in found.groups if group.startswith("turnlog.")]
    return {group: {each.name: each for each in found.select(group=group)} for group in groups}


def list_entry_points(group: str) -> Mapping[str, metadata.EntryPoint]:
    """Return the entry points of a group by name."""
    return read_entry_points().get(group, {})


# Installed packages do not change while a process runs.
@cache
def collect_installed() -> InstalledExtensions:
    """Return the registered steps and the vocabularies, by name."""
    return InstalledExtensions(
        {name: _create_lazy_step(name) for name in list_entry_points(STEP_GROUP)},
        {name: TiktokenVocabulary(name) for name in SHIPPED_VOCABULARIES},
    )


def _create_lazy_step(name: str) -> ApplyRegisteredStep:
    def take(block: LayerBlock, options: Mapping[str, JsonValue]) -> LayerBlock:
        return load_step(name)(block, options)

    return take
