"""Routes for prompt overrides: a user's own texts in place of the prompt files of a blueprint.

An edit is an event, and counts from the user's next turn on. Where a proxy is trusted to name
users, everybody reads and edits their own overrides only.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from turnlog.events.errors import Refused, TooLarge
from turnlog.events.ids import USER_NAME_PATTERN
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.layer_specs import PromptCategory
from turnlog.projections.blueprint.schema.prompt_overrides import (
    OverridePlace,
    get_override_place,
)
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.projections.blueprint.validation.layer_checks import find_override_fault
from turnlog.projections.library.user_overrides import (
    StoredOverride,
    TenantOverrides,
    build_unknown_override,
)
from turnlog.projections.prompt.sources.layer_content import list_include_names
from turnlog.services.api.override_payloads import (
    OVERRIDES_PATH,
    OverridePage,
    OverridePlaceRequest,
    OverrideRemovalResult,
    OverrideTextView,
    ProfileName,
    ProviderName,
    SetOverrideRequest,
    UserOverrideView,
    create_override_place,
)
from turnlog.services.blueprints.folder_files import MAX_FILE_BYTES, clean_text
from turnlog.services.gateway.dependencies import Dependencies, GatewayDependencies
from turnlog.services.gateway.http.headers import set_etag
from turnlog.services.gateway.http.request_identity import (
    CallerIdentity,
    ReaderIdentity,
    RequestIdentity,
)

router = APIRouter()

_OVERRIDE = f"{OVERRIDES_PATH}/{{blueprint}}/{{category}}/{{user:path}}"

_USER_FORM = "The user's name, 1 to 128 printable ASCII characters"

UserPath = Annotated[str, Path(pattern=USER_NAME_PATTERN, description=_USER_FORM)]

CategoryPath = Annotated[PromptCategory, Path(description="The category of the prompt file")]

ProfileQuery = Annotated[ProfileName | None, Query(description="The only profile that it is for")]

ProviderQuery = Annotated[
    ProviderName | None, Query(description="The only provider that it is for")
]


@router.get(OVERRIDES_PATH, summary="List the prompt overrides of a user")
async def list_overrides(
    caller: ReaderIdentity,
    deps: Dependencies,
    response: Response,
    user: Annotated[
        str | None,
        Query(pattern=USER_NAME_PATTERN, description=f"{_USER_FORM}; by default the one who asks"),
    ] = None,
    blueprint: Annotated[str | None, Query(description="Only for this blueprint")] = None,
) -> OverridePage:
    """List the overrides of a user, without their texts."""
    owner = caller.choose_user(user)
    if owner is None:
        raise Refused("invalid", "no user is named", field="user", fix="name one")
    wanted = None if blueprint is None else check_text(blueprint, "blueprint")
    found = await deps.overrides.load_overrides(caller.tenant)
    set_etag(response, found.sequence)
    views = (
        _create_view(owner, name, each)
        for name in found.list_blueprints(owner)
        if wanted in {None, name}
        for each in found.list_overrides(owner, name)
    )
    return OverridePage(sequence=found.sequence, overrides=tuple(views))


@router.get(_OVERRIDE, summary="Show a prompt override")
async def show_override(
    blueprint: str,
    category: CategoryPath,
    user: UserPath,
    caller: ReaderIdentity,
    deps: Dependencies,
    response: Response,
    profile: ProfileQuery = None,
    provider: ProviderQuery = None,
) -> OverrideTextView:
    """Return a user's own text of a category for exactly this profile and provider."""
    _require_own(caller, user)
    place = OverridePlace(category, profile, provider)
    found = await deps.overrides.load_overrides(caller.tenant)
    set_etag(response, found.sequence)
    name = check_text(blueprint, "blueprint")
    stored = found.find_override(user, name, place)
    if stored is None:
        raise build_unknown_override(user, name, place)
    return await _create_text_view(deps, found, user, name, stored)


@router.put(_OVERRIDE, summary="Set a prompt override")
async def set_override(
    blueprint: str,
    category: CategoryPath,
    user: UserPath,
    caller: CallerIdentity,
    deps: Dependencies,
    form: SetOverrideRequest,
    response: Response,
) -> OverrideTextView:
    """Set a user's own text of a category, from the user's next turn on.

    What a prompt file would be refused for is refused here.
    """
    _require_own(caller, user)
    spec = deps.blueprint_folders.load_offered_blueprint(check_text(blueprint, "blueprint"))
    place, text = create_override_place(category, form), _check_override_text(form.text)
    _check_place(spec, place)
    found, stored = await deps.overrides.set_override(
        *(caller.tenant, user, spec.blueprint, place, text),
        *(caller.author, caller.create_command_key(form)),
    )
    set_etag(response, found.sequence)
    if stored is None:
        raise build_unknown_override(user, spec.blueprint, place)
    return await _create_text_view(deps, found, user, spec.blueprint, stored)


@router.delete(_OVERRIDE, summary="Remove a prompt override")
async def remove_override(
    blueprint: str,
    category: CategoryPath,
    user: UserPath,
    caller: CallerIdentity,
    deps: Dependencies,
    response: Response,
    profile: ProfileQuery = None,
    provider: ProviderQuery = None,
) -> OverrideRemovalResult:
    """Remove a user's own text: from the user's next turn on the prompt file stands again.

    Turns that used it still name it, and its text is kept for their prompts.
    """
    _require_own(caller, user)
    form = OverridePlaceRequest(profile=profile, provider=provider)
    found = await deps.overrides.remove_override(
        *(caller.tenant, user, check_text(blueprint, "blueprint")),
        *(create_override_place(category, form), caller.author, caller.create_command_key(form)),
    )
    set_etag(response, found.sequence)
    return OverrideRemovalResult(sequence=found.sequence)


def _require_own(caller: RequestIdentity, user: str) -> None:
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
    fault = find_override_fault(blueprint, place, place.path)
    if fault is not None:
        field = "profile" if fault.path[0] == "profiles" else "category"
        raise Refused("invalid", fault.what, field=field, fix=fault.fix)


def _create_view(user: str, blueprint: str, stored: StoredOverride) -> UserOverrideView:
    return UserOverrideView.model_validate(_collect_fields(user, blueprint, stored))


def _collect_fields(user: str, blueprint: str, stored: StoredOverride) -> dict[str, object]:
    return {
        "user": user,
        "blueprint": blueprint,
        **stored.override.model_dump(),
        "path": get_override_place(stored.override).path,
        "characters": stored.characters,
        "at": stored.at,
    }


async def _create_text_view(
    deps: GatewayDependencies,
    found: TenantOverrides,
    user: str,
    blueprint: str,
    stored: StoredOverride,
) -> OverrideTextView:
    digest = stored.override.digest
    text = (await deps.command_handler.texts.read_blobs(found.tenant, (digest,)))[digest]
    names, layers = list_include_names(text), _list_layer_names(deps, blueprint)
    return OverrideTextView.model_validate(
        {
            **_collect_fields(user, blueprint, stored),
            "sequence": found.sequence,
            "text": text,
            "includes": tuple(each for each in names if each in layers),
            "unknown_names": tuple(each for each in names if each not in layers),
        }
    )


def _list_layer_names(deps: GatewayDependencies, blueprint: str) -> frozenset[str]:
    """Return the layers of a blueprint; none where it is not offered any more."""
    try:
        return frozenset(deps.blueprint_folders.load_blueprint(blueprint).layers)
    except Refused:
        return frozenset()
