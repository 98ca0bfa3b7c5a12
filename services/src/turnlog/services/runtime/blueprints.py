"""Pinned material: what sessions run by, stored as blobs and loaded by digest."""

from __future__ import annotations

from dataclasses import dataclass, field

from turnlog.events.content import Digest
from turnlog.events.log.ports import Blobs
from turnlog.events.session import BlueprintRef
from turnlog.projections.blueprint.cartridge import Cartridge
from turnlog.projections.blueprint.memory import MemoryPolicy
from turnlog.projections.blueprint.schema import Blueprint, stored_form
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.material import Material
from turnlog.projections.window.pinned import Pins, pinned, pins_of
from turnlog.projections.window.request import canonical
from turnlog.services.runtime.installed import installed
from turnlog.services.runtime.plugins import check_steps
from turnlog.services.runtime.vocabularies import ready


@dataclass(frozen=True, slots=True)
class BlueprintStore:
    """Stores and loads what sessions are pinned to; each process reads the same pins once."""

    blobs: Blobs
    _held: dict[tuple[str, Pins], Material] = field(
        default_factory=dict[tuple[str, Pins], Material]
    )

    async def pin(self, tenant: str, blueprint: Blueprint) -> BlueprintRef:
        """Store a blueprint and return its reference with the digest."""
        digest = await self.blobs.put(tenant, stored_form(blueprint))
        return BlueprintRef(name=blueprint.blueprint, version=blueprint.version, digest=digest)

    async def pin_cartridge(self, tenant: str, cartridge: Cartridge) -> Digest:
        """Store a cartridge and return its digest."""
        return await self.blobs.put(tenant, canonical(cartridge).encode())

    async def pin_memory(self, tenant: str, policy: MemoryPolicy) -> Digest:
        """Store a memory policy and return its digest."""
        return await self.blobs.put(tenant, policy.model_dump_json().encode())

    async def load(self, state: SessionState) -> Material:
        """Return the material of a session; raise `Corrupt` when a blob is gone."""
        pins = pins_of(state)
        key = (state.tenant, pins)
        if key not in self._held:
            self._held[key] = await self._read(state.tenant, pins)
        return self._held[key]

    async def _read(self, tenant: str, pins: Pins) -> Material:
        blobs = {digest: (await self.blobs.get(tenant, digest)).decode() for digest in pins.digests}
        material = pinned(pins, blobs, installed())
        check_steps(material.blueprint)
        await ready(material.blueprint)
        return material
