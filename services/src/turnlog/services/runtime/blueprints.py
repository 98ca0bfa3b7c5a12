"""Pinned material: what a session runs by, loaded by digest, whatever the files say today."""

from __future__ import annotations

from dataclasses import dataclass, field

from turnlog.events.content import Digest
from turnlog.events.log.ports import Blobs
from turnlog.events.session import BlueprintRef
from turnlog.projections.blueprint.cartridge import Cartridge
from turnlog.projections.blueprint.memory import MemoryPolicy
from turnlog.projections.blueprint.schema import Blueprint, stored_form
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.material import Material, read_cartridge
from turnlog.projections.window.request import canonical
from turnlog.services.runtime.plugins import steps_of
from turnlog.services.runtime.vocabularies import Vocabularies

Pinned = tuple[str, Digest, Digest | None, Digest | None]
"""A tenant, and what a session of its is pinned to: blueprint, cartridge, memory policy."""


@dataclass(frozen=True, slots=True)
class BlueprintStore:
    """Stores and loads what sessions are pinned to as blobs; the same is read once a process."""

    blobs: Blobs
    vocabularies: Vocabularies = field(default_factory=Vocabularies)
    _held: dict[Pinned, Material] = field(default_factory=dict[Pinned, Material])

    async def pin(self, tenant: str, blueprint: Blueprint) -> BlueprintRef:
        """Store a blueprint and name it by digest."""
        digest = await self.blobs.put(tenant, stored_form(blueprint))
        return BlueprintRef(name=blueprint.blueprint, version=blueprint.version, digest=digest)

    async def pin_cartridge(self, tenant: str, cartridge: Cartridge) -> Digest:
        """Store a cartridge and name it by digest."""
        return await self.blobs.put(tenant, canonical(cartridge).encode())

    async def pin_memory(self, tenant: str, policy: MemoryPolicy) -> Digest:
        """Store a memory policy and name it by digest."""
        return await self.blobs.put(tenant, policy.model_dump_json().encode())

    async def load(self, state: SessionState) -> Material:
        """Give what a session is made from; raises `Corrupt` when a blob is gone."""
        key = (state.tenant, state.blueprint.digest, state.cartridge, state.memory)
        if key not in self._held:
            self._held[key] = await self._read(*key)
        return self._held[key]

    async def _read(
        self, tenant: str, digest: Digest, cartridge: Digest | None, memory: Digest | None
    ) -> Material:
        blueprint = Blueprint.model_validate_json(await self.blobs.get(tenant, digest))
        data = (await self.blobs.get(tenant, cartridge)).decode() if cartridge else "{}"
        policy = await self.blobs.get(tenant, memory) if memory else None
        remembered = MemoryPolicy.model_validate_json(policy) if policy else None
        known = await self.vocabularies.of(blueprint)
        return Material(blueprint, read_cartridge(data), remembered, steps_of(blueprint), known)
