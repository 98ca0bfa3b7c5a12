"""Setting, reading and removing the own prompts of users.

An edit is an event, and counts from the user's next turn on. Where a proxy is trusted to name
users, everybody reads and edits their own overrides only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from turnlog.contract.override_payloads import (
    OverridePage,
    OverrideRemovalResult,
    OverrideTextView,
    SetOverrideRequest,
    UserOverrideView,
)
from turnlog.events.errors import Refused, TooLarge
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.prompt_overrides import (
    OverridePlace,
    get_override_place,
)
from turnlog.projections.blueprint.sent_names import format_sent_name
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.projections.blueprint.validation.layer_checks import find_override_fault
from turnlog.projections.library.user_overrides import (
    StoredOverride,
    TenantOverrides,
    build_unknown_override,
)
from turnlog.projections.prompt.sources.layer_content import list_include_names
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.blueprints.folder_files import MAX_FILE_BYTES, clean_text
from turnlog.services.caches.text_cache import TextReader
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.guarded_requests import guard_request
from turnlog.services.overrides.override_service import OverrideService
from turnlog.services.platform.concurrency import run_in_thread


@dataclass(frozen=True, slots=True)
class OverrideUseCases:
    """Reads and edits the own prompts of users."""

    overrides: OverrideService
    blueprint_folders: BlueprintFolders
    texts: TextReader

    async def list_overrides(
        self, caller: Caller, user: str | None = None, blueprint: str | None = None
    ) -> OverridePage:
        """List the overrides of a user, by default of the one who asks, without their texts."""
        owner = caller.choose_user(user)
        if owner is None:
            raise Refused("invalid", "no user is named", field="user", fix="name one")
        wanted = None if blueprint is None else check_text(blueprint, "blueprint")
        found = await self.overrides.load_overrides(caller.tenant)
        views = (
            _create_view(owner, name, each)
            for name in found.list_blueprints(owner)
            if wanted in {None, name}
            for each in found.list_overrides(owner, name)
        )
        return OverridePage(sequence=found.sequence, overrides=tuple(views))

    async def load_override(
        self, caller: Caller, user: str, blueprint: str, place: OverridePlace
    ) -> OverrideTextView:
        """Return a user's own text for exactly this category, profile and provider."""
        _require_own(caller, user)
        found = await self.overrides.load_overrides(caller.tenant)
        name = check_text(blueprint, "blueprint")
        stored = found.find_override(user, name, place)
        if stored is None:
            raise build_unknown_override(user, name, place)
        return await self._create_text_view(found, user, name, stored)

    async def set_override(
        self, *, caller: Caller, user: str, blueprint: str, category: str, form: SetOverrideRequest
    ) -> OverrideTextView:
        """Set a user's own text of a category, from the user's next turn on.

        What a prompt file would be refused for is refused here, and the text is guarded by the
        rules for what people submit.
        """
        _require_own(caller, user)
        name = check_text(blueprint, "blueprint")
        folders = self.blueprint_folders.open_tenant(caller.tenant)
        spec = await run_in_thread(partial(folders.load_offered_blueprint, name))
        guarded = await guard_request(spec.policies.input_safety, form)
        if guarded.refusal is not None:
            raise guarded.refusal
        cleaned = _check_override_text(guarded.form.text)
        place = OverridePlace(category, form.profile, form.provider)
        _check_place(spec, place)
        found, stored = await self.overrides.set_override(
            guarded.create_caller(caller), user, spec.blueprint, place, text=cleaned
        )
        if stored is None:
            raise build_unknown_override(user, spec.blueprint, place)
        return await self._create_text_view(found, user, spec.blueprint, stored)

    async def remove_override(
        self, caller: Caller, user: str, blueprint: str, place: OverridePlace
    ) -> OverrideRemovalResult:
        """Remove a user's own text: from the user's next turn on the prompt file stands again.

        Turns that used it still name it, and its text is kept for their prompts.
        """
        _require_own(caller, user)
        name = check_text(blueprint, "blueprint")
        found = await self.overrides.remove_override(caller, user, name, place)
        return OverrideRemovalResult(sequence=found.sequence)

    async def _create_text_view(
        self, found: TenantOverrides, user: str, blueprint: str, stored: StoredOverride
    ) -> OverrideTextView:
        digest = stored.override.digest
        text = (await self.texts.read_blobs(found.tenant, (digest,)))[digest]
        names, layers = (
            list_include_names(text),
            await self._list_layer_names(found.tenant, blueprint),
        )
        return OverrideTextView.model_validate(
            {
                **_collect_fields(user, blueprint, stored),
                "sequence": found.sequence,
                "text": text,
                "includes": tuple(each for each in names if each in layers),
                "unknown_names": tuple(each for each in names if each not in layers),
            }
        )

    async def _list_layer_names(self, tenant: str, blueprint: str) -> frozenset[str]:
        """Return the layers of a blueprint; none where it is not offered any more."""
        load = partial(self.blueprint_folders.open_tenant(tenant).load_blueprint, blueprint)
        try:
            return frozenset((await run_in_thread(load)).layers)
        except Refused:
            return frozenset()


def _require_own(caller: Caller, user: str) -> None:
    """Refuse another user's overrides where a proxy names the one who asks."""
    caller.choose_user(user)


def _check_override_text(text: str) -> str:
    """Return the text as a prompt file with it is read; refuse one that no file may have."""
    if (size := len(text.encode())) > MAX_FILE_BYTES:
        raise TooLarge("the text", size, MAX_FILE_BYTES)
    cleaned = clean_text(check_text(text, "text"), "text")
    if not cleaned.strip():
        detail = "the text is empty, and a prompt without it has no words of this category"
        raise Refused("invalid", detail, field="text", fix="write a text, or remove the override")
    return cleaned


def _check_place(blueprint: Blueprint, place: OverridePlace) -> None:
    fault = find_override_fault(blueprint, place, format_sent_name(place.path))
    if fault is not None:
        field = "profile" if fault.path[0] == "profiles" else "category"
        raise Refused("invalid", fault.what, field=field, fix=fault.fix)


def _create_view(user: str, blueprint: str, stored: StoredOverride) -> UserOverrideView:
    return UserOverrideView.model_validate(_collect_fields(user, blueprint, stored))


def _collect_fields(user: str, blueprint: str, stored: StoredOverride) -> dict[str, object]:
    return {
        "user": user,
        "blueprint": blueprint,
        **stored.override.model_dump(exclude={"sealed_in"}),
        "path": get_override_place(stored.override).path,
        "characters": stored.characters,
        "at": stored.at,
    }
