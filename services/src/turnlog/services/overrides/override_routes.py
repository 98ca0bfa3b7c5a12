"""Routes for prompt overrides: a user's own texts in place of the prompt files of a blueprint."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from turnlog.contract import api_paths
from turnlog.contract.override_payloads import (
    OverridePage,
    OverridePlaceRequest,
    OverrideRemovalResult,
    OverrideTextView,
    ProfileName,
    ProviderName,
    SetOverrideRequest,
)
from turnlog.contract.request_values import USER_NAME_PATTERN
from turnlog.projections.blueprint.schema.layer_specs import PromptCategory
from turnlog.projections.blueprint.schema.prompt_overrides import OverridePlace
from turnlog.services.http.headers import tag_body
from turnlog.services.http.request_identity import CallerIdentity, ReaderIdentity
from turnlog.services.overrides.override_use_cases import OverrideUseCases

router = APIRouter()


async def get_overrides(request: Request) -> OverrideUseCases:
    """Return the use cases of this application."""
    overrides: OverrideUseCases = request.app.state.use_cases.overrides
    return overrides


Overrides = Annotated[OverrideUseCases, Depends(get_overrides)]

_USER_FORM = "The user's name, 1 to 128 printable ASCII characters"

UserPath = Annotated[str, Path(pattern=USER_NAME_PATTERN, description=_USER_FORM)]

CategoryPath = Annotated[PromptCategory, Path(description="The category of the prompt file")]

ProfileQuery = Annotated[ProfileName | None, Query(description="The only profile that it is for")]

ProviderQuery = Annotated[
    ProviderName | None, Query(description="The only provider that it is for")
]


@router.get(api_paths.OVERRIDES, summary="List the prompt overrides of a user")
async def list_overrides(
    caller: ReaderIdentity,
    overrides: Overrides,
    response: Response,
    user: Annotated[
        str | None,
        Query(pattern=USER_NAME_PATTERN, description=f"{_USER_FORM}; by default the one who asks"),
    ] = None,
    blueprint: Annotated[str | None, Query(description="Only for this blueprint")] = None,
) -> OverridePage:
    """List the overrides of a user, without their texts."""
    found = await overrides.list_overrides(caller.create_caller(), user, blueprint)
    return tag_body(response, found)


@router.get(api_paths.OVERRIDE, summary="Show a prompt override")
async def show_override(
    blueprint: str,
    category: CategoryPath,
    user: UserPath,
    caller: ReaderIdentity,
    overrides: Overrides,
    response: Response,
    profile: ProfileQuery = None,
    provider: ProviderQuery = None,
) -> OverrideTextView:
    """Return a user's own text of a category for exactly this profile and provider."""
    place = OverridePlace(category, profile, provider)
    found = await overrides.load_override(caller.create_caller(), user, blueprint, place)
    return tag_body(response, found)


@router.put(api_paths.OVERRIDE, summary="Set a prompt override")
async def set_override(
    blueprint: str,
    category: CategoryPath,
    user: UserPath,
    caller: CallerIdentity,
    overrides: Overrides,
    form: SetOverrideRequest,
    response: Response,
) -> OverrideTextView:
    """Set a user's own text of a category, from the user's next turn on.

    What a prompt file would be refused for is refused here.
    """
    done = await overrides.set_override(
        caller=caller.create_caller(form),
        user=user,
        blueprint=blueprint,
        category=category,
        form=form,
    )
    return tag_body(response, done)


@router.delete(api_paths.OVERRIDE, summary="Remove a prompt override")
async def remove_override(
    blueprint: str,
    category: CategoryPath,
    user: UserPath,
    caller: CallerIdentity,
    overrides: Overrides,
    response: Response,
    profile: ProfileQuery = None,
    provider: ProviderQuery = None,
) -> OverrideRemovalResult:
    """Remove a user's own text: from the user's next turn on the prompt file stands again.

    Turns that used it still name it, and its text is kept for their prompts.
    """
    form = OverridePlaceRequest(profile=profile, provider=provider)
    place = OverridePlace(category, profile, provider)
    done = await overrides.remove_override(caller.create_caller(form), user, blueprint, place)
    return tag_body(response, done)
