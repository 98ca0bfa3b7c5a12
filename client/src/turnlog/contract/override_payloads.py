"""Requests and responses of prompt overrides."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from turnlog.contract.payload_models import RequestModel, ResponseModel

OverrideCategory = Literal[
    "master_system",
    "visualization",
    "workflow_classification",
    "error_recovery",
    "conversation_execution",
    "genie_coordination",
    "rag_focused_execution",
]
"""The kind of prompt file that a user may replace for their own turns."""

ProfileName = Annotated[str, Field(min_length=1, max_length=200)]

# With `{1,64}` in place of `+` and a length, the compiled pattern takes 6 MB.
ProviderName = Annotated[str, Field(pattern=r"^[\w.-]+$", max_length=64)]


class OverridePlaceRequest(RequestModel):
    """Names one override of a user among those of a category."""

    profile: ProfileName | None = None
    """The only profile it is for; by default it is for all that have the category."""
    provider: ProviderName | None = None
    """The only provider it is for, as models are named: `openai` of `openai/heron`."""


class SetOverrideRequest(OverridePlaceRequest):
    """Sets a user's own text of a category."""

    text: str
    """The text; `{name}` includes the layer of that name, as in a prompt file."""


class UserOverrideView(ResponseModel):
    """A user's own text in place of a prompt file."""

    user: str
    """The user's name."""
    blueprint: str
    """The name of the blueprint."""
    category: str
    """The category of the prompt file."""
    profile: str | None
    """The only profile it is for; null if it is for all."""
    provider: str | None
    """The only provider it is for; null if it is for all."""
    path: str
    """The file that it stands for, in the folder of the blueprint; manifests have it too."""
    version: int
    """The version, from 1; manifests have it too."""
    digest: str
    """Digest of the text."""
    characters: int
    """Length of the text in code points."""
    at: str
    """When it was set, RFC 3339."""


class OverridePage(ResponseModel):
    """The overrides of a user."""

    sequence: int
    """The sequence of the last edit of any user; 0 before the first."""
    overrides: tuple[UserOverrideView, ...]
    """By blueprint and path."""


class OverrideTextView(UserOverrideView):
    """An override with its text."""

    sequence: int
    """The sequence of the last edit of any user."""
    text: str
    """The text."""
    includes: tuple[str, ...]
    """Names in braces that are layers of the blueprint: included there, as in a prompt file."""
    unknown_names: tuple[str, ...]
    """Names in braces that are no layers; they stay in the prompt as they are."""


class OverrideRemovalResult(ResponseModel):
    """An override was removed."""

    sequence: int
    """The sequence of the removal."""
