"""Pinned material: what a session runs by, loaded by digest, whatever the files say today."""

from __future__ import annotations

from dataclasses import dataclass, field

from turnlog.events.content import Digest
from turnlog.events.log.ports import Blobs
from turnlog.events.session import BlueprintRef
from turnlog.projections.blueprint.cartridge import Cartridge
from turnlog.projections.blueprint.schema import Blueprint, stored_form
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.material import Material, read_cartridge
from turnlog.projections.window.request import canonical


@dataclass(frozen=True, slots=True)
class BlueprintStore:
    """Stores and loads blueprints and cartridges as blobs; each pair is read once a process."""

    blobs: Blobs
    _held: dict[tuple[str, Digest, Digest | None], Material] = field(
        default_factory=dict[tuple[str, Digest, Digest | None], Material]
    )

    async def pin(self, tenant: str, blueprint: Blueprint) -> BlueprintRef:
        """Store a blueprint and name it by digest."""
        digest = await self.blobs.put(tenant, stored_form(blueprint))
        return BlueprintRef(name=blueprint.blueprint, version=blueprint.version, digest=digest)

    async def pin_cartridge(self, tenant: str, cartridge: Cartridge) -> Digest:
        """Store a cartridge and name it by digest."""
        return await self.blobs.put(tenant, canonical(cartridge).encode())

    async def load(self, state: SessionState) -> Material:
        """Give what a session is made from; raises `Corrupt` when a blob is gone."""
        tenant, digest, cartridge = state.tenant, state.blueprint.digest, state.cartridge
        key = (tenant, digest, cartridge)
        if key not in self._held:
            blueprint = Blueprint.model_validate_json(await self.blobs.get(tenant, digest))
            data = (await self.blobs.get(tenant, cartridge)).decode() if cartridge else "{}"
            self._held[key] = Material(blueprint, read_cartridge(data))
        return self._held[key]
