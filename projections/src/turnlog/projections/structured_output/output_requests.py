"""How a call asks for the form of its answer: by `response_format`, or by words in its prompt.

Which of the two is decided once, before a new call is assembled, and stands in its manifest: the
part `output_schema` has the role `response_format`, or that of the message that states the schema,
and its rule says why. A recorded call is assembled again from that part. What a model can do is not
looked up again, since a table of models changes with every release. A call recorded without such a
part asked for nothing, and is assembled like that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from turnlog.events.model.manifest import Manifest
from turnlog.projections.blueprint.schema.call_specs import CallSpec
from turnlog.projections.blueprint.schema.layer_specs import OUTPUT_LAYER

RESPONSE_FORMAT: Final = "response_format"
"""The parameter of a request that holds the schema of the answer."""

OFFERS_TOOLS: Final = "it offers tools"

ROOT_IS_NO_OBJECT: Final = "its schema is no object"


@dataclass(frozen=True, slots=True)
class OutputRequest:
    """How a call asks for the form of its answer."""

    by: Literal["response_format", "prompt"]
    because: str
    """Why so: `litellm 1.106.2 says that the model takes it`, `it offers tools`."""


def has_output_to_request(spec: CallSpec) -> bool:
    """Return whether a call has a schema to ask for; its own `response_format` asks already."""
    return spec.output is not None and RESPONSE_FORMAT not in spec.parameters


def find_obstacle(spec: CallSpec) -> str | None:
    """Return why no model takes the schema of a call as `response_format`, or None.

    Several providers take no schema beside tools; litellm makes a forced tool of it for others, so
    that the model could call no tool of its own.
    """
    if spec.tools:
        return OFFERS_TOOLS
    schema = spec.output.schema_ if spec.output else None
    is_object = not isinstance(schema, dict) or schema.get("type") == "object"
    return None if is_object else ROOT_IS_NO_OBJECT


def find_output_request(manifest: Manifest) -> OutputRequest | None:
    """Return how a recorded call asked for the form of its answer; None if it did not."""
    for part in manifest.parts:
        if part.layer == OUTPUT_LAYER and part.is_included:
            is_beside = part.role == RESPONSE_FORMAT
            return OutputRequest(RESPONSE_FORMAT if is_beside else "prompt", part.rule or "")
    return None
