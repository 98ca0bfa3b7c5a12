"""The request bodies of hypothetical prompts: windows, assembled prompts and what-if comparisons.

Nothing is recorded and no model is called.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from turnlog.contract.payload_models import ADDED_FIELD, MAX_INT, JsonObject, RequestModel
from turnlog.contract.request_values import USER_NAME_PATTERN, ShortName
from turnlog.contract.session_requests import MAX_PARTS, TurnPartInput

LadderSettings = Annotated[dict[str, JsonObject], Field(min_length=1, max_length=20)]

FolderPath = Annotated[str, Field(min_length=1, max_length=300)]


class WindowPreviewRequest(RequestModel):
    """Previews what a call would see; nothing is recorded."""

    text: Annotated[str, Field(min_length=1)] | None = None
    """The text of the hypothetical turn."""
    parts: Annotated[
        list[TurnPartInput] | None, ADDED_FIELD, Field(min_length=1, max_length=MAX_PARTS)
    ] = None
    """Texts, pictures, recordings and files in their order, in place of `text`; none is stored."""
    inputs: JsonObject = {}
    """The values that the blueprint takes beside the text."""
    call: ShortName | None = None
    """The kind of call; by default the one that would be made."""
    budget: Annotated[int, Field(ge=1, le=MAX_INT)] | None = None
    """The token budget of the prompt; by default that of the blueprint."""
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """A model as litellm names it, which selects prompt files, token counter and price."""
    user: Annotated[str | None, ADDED_FIELD, Field(pattern=USER_NAME_PATTERN)] = None
    """Who would ask, for that user's own prompts; by default the one that a trusted proxy names."""


class AssembleRequest(WindowPreviewRequest):
    """Assembles a prompt without a session; nothing is recorded."""

    blueprint: ShortName
    """The name of the blueprint."""
    attributes: JsonObject = {}
    """The values that the blueprint takes at opening; see `/v1/blueprints/{blueprint}`."""
    profile: ShortName | None = None
    """A profile of the blueprint, as at opening."""


class BlueprintFolder(RequestModel):
    """A blueprint folder, sent with the request."""

    blueprint: ShortName
    """The name of the folder and of its blueprint."""
    files: Annotated[dict[FolderPath, str], Field(max_length=1_000)]
    """Path within the folder to text: `blueprint.yaml`, prompt files, cartridges."""


class WhatIfRequest(RequestModel):
    """Evaluates a hypothetical change; nothing is written and no model is called."""

    sessions: Annotated[list[str], Field(min_length=1, max_length=10_000)] | None = None
    """The sessions to evaluate; by default those that the query parameters select. Where these
    name no blueprint, only those of the given one.
    """
    blueprint: BlueprintFolder | None = None
    """Another blueprint with its files."""
    budget: Annotated[int, Field(ge=1, le=MAX_INT)] | None = None
    """Another token budget, which replaces every budget of a call."""
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Another model as litellm names it, which selects prompt files, token counter and price."""
    ladder: LadderSettings | None = None
    """Other settings of the steps that the ladders of a blueprint have, by the name of the step,
    such as `{"drop_oldest_pairs": {"to": "80%"}}`; null takes one away.
    """
