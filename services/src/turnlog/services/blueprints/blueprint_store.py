"""Pinned material: what sessions run by, stored as blobs and loaded by digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from turnlog.events.content import Digest, encode_canonical
from turnlog.events.model.session_events import BlueprintRef
from turnlog.events.store.ports import BlobStore
from turnlog.projections.blueprint.linear_patterns import find_pattern_fault
from turnlog.projections.blueprint.loading.cartridge_source import Cartridge
from turnlog.projections.blueprint.schema.blueprint_model import (
    Blueprint,
    compute_blueprint_digest,
    encode_blueprint,
)
from turnlog.projections.blueprint.schema.history_specs import MemoryPolicy
from turnlog.projections.blueprint.schema.policy_specs import InputPatternRule, SafetyPatternRule
from turnlog.projections.prompt.sources.session_material import (
    MaterialPins,
    SessionMaterial,
    build_material,
    get_pins,
)
from turnlog.projections.session.state import SessionState
from turnlog.services.extensions.plugins import check_steps_registered, collect_installed
from turnlog.services.extensions.tokenizers import load_vocabularies
from turnlog.services.platform.concurrency import run_in_thread


def build_blueprint_ref(blueprint: Blueprint) -> BlueprintRef:
    """Return the reference to a blueprint as it is stored."""
    digest = compute_blueprint_digest(blueprint)
    return BlueprintRef(name=blueprint.blueprint, version=blueprint.version, digest=digest)


def encode_cartridge(cartridge: Cartridge) -> bytes:
    """Return the bytes that a cartridge is stored as."""
    return encode_canonical(cartridge).encode()


def encode_memory_policy(policy: MemoryPolicy) -> bytes:
    """Return the bytes that a memory policy is stored as."""
    return policy.model_dump_json().encode()


@dataclass(frozen=True, slots=True)
class BlueprintStore:
    """Stores and loads what sessions are pinned to; each process reads the same pins once."""

    blobs: BlobStore
    _cached_material: dict[tuple[str, MaterialPins], SessionMaterial] = field(
        default_factory=dict[tuple[str, MaterialPins], SessionMaterial]
    )

    async def store_blueprint(self, tenant: str, blueprint: Blueprint) -> BlueprintRef:
        """Store a blueprint and return its reference with the digest."""
        await self.blobs.put_blob(tenant, encode_blueprint(blueprint))
        return build_blueprint_ref(blueprint)

    async def store_cartridge(self, tenant: str, cartridge: Cartridge) -> Digest:
        """Store a cartridge and return its digest."""
        return await self.blobs.put_blob(tenant, encode_cartridge(cartridge))

    async def store_memory_policy(self, tenant: str, policy: MemoryPolicy) -> Digest:
        """Store a memory policy and return its digest."""
        return await self.blobs.put_blob(tenant, encode_memory_policy(policy))

    async def load_material(self, state: SessionState) -> SessionMaterial:
        """Return the material of a session; raise `Corrupt` when a blob is gone."""
        pins = get_pins(state)
        key = (state.tenant, pins)
        if key not in self._cached_material:
            self._cached_material[key] = await self._read_material(state.tenant, pins)
        return self._cached_material[key]

    async def _read_material(self, tenant: str, pins: MaterialPins) -> SessionMaterial:
        blobs = {
            digest: (await self.blobs.get_blob(tenant, digest)).decode() for digest in pins.digests
        }
        material = await run_in_thread(lambda: _prepare_material(pins, blobs))
        await load_vocabularies(material.blueprint)
        return material


def _prepare_material(pins: MaterialPins, blobs: Mapping[str, str]) -> SessionMaterial:
    """Build material with all that takes long: packages that are imported, and patterns.

    Blocks: up to a tenth of a second for each pattern, and as long for the first blueprint.
    """
    material = build_material(pins, blobs, collect_installed())
    check_steps_registered(material.blueprint)
    policies = material.blueprint.policies
    for rule in (*policies.safety.rules, *policies.input_safety):
        if isinstance(rule, SafetyPatternRule | InputPatternRule):
            find_pattern_fault(rule.pattern)  # Guards get the compiled ones, which are cached.
    return material
