"""What is shown of blueprints: the list, one with its schemas, and what sessions are pinned to.

It is the present content of the files; a session runs with the content at its opening or its last
move.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from turnlog.events.content import Digest, compute_digest
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.schema.blueprint_model import compute_blueprint_digest
from turnlog.projections.blueprint.schema.prompt_overrides import list_prompt_layers
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.projections.blueprint.template_slots import find_slots
from turnlog.projections.blueprint.validation.layer_checks import PROVIDER_SLOT
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.pinned_versions import list_pins
from turnlog.projections.store.read.row_types import PinnedText
from turnlog.services.api.service_payloads import (
    BlueprintList,
    BlueprintSchemas,
    PinnedTextList,
    PinnedTextView,
)
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.blueprints.blueprint_views import (
    create_blueprint_list,
    create_blueprint_schemas,
)
from turnlog.services.platform.concurrency import run_in_thread


@dataclass(frozen=True, slots=True)
class BlueprintUseCases:
    """Shows the blueprints of an installation."""

    blueprint_folders: BlueprintFolders
    store: ReadModelStore

    async def list_blueprints(self, tenant: str) -> BlueprintList:
        """List a tenant's blueprints; those that cannot be loaded are listed separately."""
        folders = self.blueprint_folders.open_tenant(tenant)
        return await run_in_thread(lambda: create_blueprint_list(folders))

    async def load_blueprint(self, tenant: str, name: str) -> BlueprintSchemas:
        """Return a blueprint with the JSON Schemas of its values, and its ladders."""
        load = self.blueprint_folders.open_tenant(tenant).load_offered_blueprint
        return await run_in_thread(lambda: create_blueprint_schemas(load(name)))

    async def list_pinned_texts(self, tenant: str, blueprint: str | None = None) -> PinnedTextList:
        """Count open sessions by the texts they are pinned to, and compare these with the files."""
        name = None if blueprint is None else check_text(blueprint, "blueprint")
        async with self.store.open_reader() as connection:
            found = await list_pins(connection, tenant, name)
        create = partial(_create_pin_view, self.blueprint_folders.open_tenant(tenant))
        return PinnedTextList(pins=await run_in_thread(lambda: tuple(map(create, found))))


def _create_pin_view(folders: BlueprintFolders, pin: PinnedText) -> PinnedTextView:
    return PinnedTextView(
        blueprint=pin.blueprint,
        what=pin.what,
        version=pin.version,
        provider=pin.provider,
        layer=pin.layer,
        path=pin.path,
        digest=pin.digest,
        sessions=pin.sessions,
        current=_is_pin_current(folders, pin),
    )


def _is_pin_current(folders: BlueprintFolders, pin: PinnedText) -> bool | None:
    """Return whether a session opened now would get this text; None when that depends."""
    try:
        if pin.what == "blueprint":
            present = folders.load_blueprint(pin.blueprint)
            return compute_blueprint_digest(present) == pin.digest
        if pin.path is None or pin.path.startswith("source:"):
            return None
        text = folders.open_files(pin.blueprint).files.read_text(pin.path, "path")
        unchanged = text is not None and compute_digest(text) == pin.digest
        if pin.layer is None or pin.provider is None or not unchanged:
            return unchanged
        return _is_first_prompt_file(
            folders, pin.blueprint, pin.layer, pin.provider, digest=pin.digest
        )
    except Refused:
        return False


def _is_first_prompt_file(
    folders: BlueprintFolders, name: str, layer: str, provider: str, *, digest: Digest
) -> bool | None:
    """Return whether a layer resolves to this prompt file.

    None when that depends on the session.
    """
    blueprint = folders.load_blueprint(name)
    looking = list_prompt_layers(blueprint).get(layer)
    if looking is None:
        return False
    chain = blueprint.prompts.search if looking.search is None else looking.search
    if not set(find_slots("/".join((*chain, looking.file)))) <= {PROVIDER_SLOT}:
        return None
    found = folders.read_prompt_files(blueprint, {layer: looking}, provider, {})
    return layer in found and compute_digest(found[layer][1]) == digest
