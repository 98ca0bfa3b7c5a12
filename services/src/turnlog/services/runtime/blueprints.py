"""Pinned blueprints: what a session runs by, loaded by digest, whatever the files say today."""

from __future__ import annotations

from dataclasses import dataclass, field

from turnlog.events.content import Digest
from turnlog.events.log.ports import Blobs
from turnlog.events.session import BlueprintRef
from turnlog.projections.blueprint.schema import Blueprint, stored_form


@dataclass(frozen=True, slots=True)
class BlueprintStore:
    """Stores and loads blueprints as blobs; each is read once a process."""

    blobs: Blobs
    _held: dict[tuple[str, Digest], Blueprint] = field(
        default_factory=dict[tuple[str, Digest], Blueprint]
    )

    async def pin(self, tenant: str, blueprint: Blueprint) -> BlueprintRef:
        """Store a blueprint and name it by digest."""
        digest = await self.blobs.put(tenant, stored_form(blueprint))
        self._held[tenant, digest] = blueprint
        return BlueprintRef(name=blueprint.blueprint, version=blueprint.version, digest=digest)

    async def load(self, tenant: str, digest: Digest) -> Blueprint:
        """Give a pinned blueprint; raises `Corrupt` when its blob is gone."""
        if (tenant, digest) not in self._held:
            stored = await self.blobs.get(tenant, digest)
            self._held[tenant, digest] = Blueprint.model_validate_json(stored)
        return self._held[tenant, digest]
