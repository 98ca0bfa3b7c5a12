"""A check of a blueprint's tool servers: each is started and asked what it offers.

It uses the connections, the limits and the catalog of the worker, so what it finds is what a
session would find.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Literal

from turnlog.events.content import encode_canonical
from turnlog.events.model.tool_events import ToolsSnapshotted
from turnlog.projections.blueprint.schema.tool_specs import ALL_TOOLS, ToolsSpec
from turnlog.projections.blueprint.token_counters import build_call_counter
from turnlog.projections.prompt.budget.admission_limits import find_definition_limit
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.tools.tool_catalog import (
    DefinitionLimit,
    ServerOffers,
    ToolOffer,
    build_tool_catalog,
    build_tool_name,
    format_definition,
)
from turnlog.services.worker.tools.tool_server_types import ToolServerFailure, ToolServers
from turnlog.services.worker.tools.tool_snapshots import list_server_offers

RepeatRule = Literal["read-only", "idempotent", "declared", "once"]
"""Why a tool may run again: it is read-only, or its server or blueprint allows it; or `once`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTool:
    """A tool or prompt that a server offers."""

    name: str
    """Its name among the tools of all servers."""
    alias: str | None
    """The name that models know it by; None if that is its own."""
    kind: Literal["tool", "prompt"]
    repeat: RepeatRule
    """Whether it may run again when the outcome of a run is unknown."""
    tokens: int
    """Estimated tokens of its description and schema in each call that offers it."""
    left_out: str | None
    """Why no call offers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedServer:
    """The result of starting one server and listing its tools."""

    server: str
    system_name: str | None = None
    """What prompts call it; the name in the tools file, where the product cannot use that."""
    required: bool = True
    """Whether turns fail while it cannot be asked."""
    tools: tuple[CheckedTool, ...] = ()
    code: str | None = None
    """The code of the failure; None if there was none."""
    detail: str | None = None
    """What went wrong, with the last lines that the server wrote."""
    unknown: tuple[str, ...] = ()
    """Tools that the blueprint or the tools file names and the server does not have."""

    @property
    def is_right(self) -> bool:
        """Whether it answered and has all tools that are named."""
        return self.code is None and not self.unknown


async def check_servers(
    material: SessionMaterial, servers: ToolServers
) -> tuple[CheckedServer, ...]:
    """Start all servers of a blueprint and return what each offers or why it cannot be used."""
    spec, limit = material.blueprint.tools, _find_widest_limit(material)
    if spec is None:
        return ()
    return tuple(
        await asyncio.gather(*(_check_server(spec, servers, name, limit) for name in spec.servers))
    )


def _find_widest_limit(material: SessionMaterial) -> DefinitionLimit | None:
    """Return how large a tool may be, so that some profile offers it; None without a limit."""
    profiles = material.blueprint.profiles
    offering = [
        name for name, each in profiles.items() if each.program not in {"chat", "knowledge"}
    ]
    limits = [find_definition_limit(material, name, context_tokens=None) for name in offering]
    known = [limit for limit in limits if limit is not None]
    return max(known, key=lambda each: each.tokens) if known and len(known) == len(limits) else None


async def _check_server(
    spec: ToolsSpec, servers: ToolServers, name: str, limit: DefinitionLimit | None
) -> CheckedServer:
    options = spec.servers[name]
    checked = CheckedServer(
        server=name, system_name=options.system_name, required=options.is_required
    )
    try:
        offers = await list_server_offers(servers, name, spec)
    except ToolServerFailure as failure:
        return replace(checked, code=failure.code, detail=failure.detail)
    snapshot = build_tool_catalog("", spec, ServerOffers({name: offers}), limit).event
    tools = tuple(_check_offer(spec, name, each, snapshot) for each in offers)
    lists = (options.only or (), options.except_, options.idempotent, options.approve)
    known = {each.tool for each in offers} | {ALL_TOOLS}
    unknown = tuple(sorted({tool for names in lists for tool in names} - known))
    return replace(checked, tools=tools, unknown=unknown)


def _check_offer(
    spec: ToolsSpec, server: str, offer: ToolOffer, snapshot: ToolsSnapshotted
) -> CheckedTool:
    name = build_tool_name(server, offer)
    alias = snapshot.tools[name].alias if name in snapshot.tools else None
    text = encode_canonical(format_definition(alias or name, offer))
    tokens = build_call_counter(None, {}, "").count_tokens(text)
    repeat = _find_repeat_rule(offer, spec.servers[server].idempotent)
    return CheckedTool(
        name=name,
        alias=alias,
        kind=offer.kind,
        repeat=repeat,
        tokens=tokens,
        left_out=snapshot.left_out.get(name),
    )


def _find_repeat_rule(offer: ToolOffer, declared: tuple[str, ...]) -> RepeatRule:
    if offer.kind == "prompt" or offer.read_only:
        return "read-only"
    if offer.idempotent:
        return "idempotent"
    return "declared" if offer.tool in declared else "once"
