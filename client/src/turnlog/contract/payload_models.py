"""The base classes of everything that the gateway and its clients exchange.

Requests and responses have a closed set of fields. No request has a field for a model's address,
key or parameters: those belong to the blueprint and the operator. A request model checks only the
shape; the blueprint decides which values are valid. Every response about a session has the sequence
it reflects. A text that is sealed or erased is null.
"""

from __future__ import annotations

from typing import Final

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
)

JsonObject = dict[str, JsonValue]

MAX_INT: Final = 2**53 - 1
"""JSON readers disagree about whole numbers beyond this one."""

ADDED_FIELD: Final = Field(exclude_if=lambda value: value is None)
"""Marks an optional field that a request got in a later release.

The digest of an idempotency key covers the whole request, an absent field as null. A field that is
marked is left out of it while it is absent, so that a request repeated after an upgrade is still
the recorded one.
"""


class RequestModel(BaseModel):
    """A request body; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class PatchModel(RequestModel):
    """A change of some fields: one that is absent stays as it is, and null removes its value.

    Absent fields are left out wherever the request is written, its idempotency digest included.
    """

    @model_serializer(mode="wrap")
    def _leave_absent_out(self, serialize: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        values: dict[str, JsonValue] = serialize(self)
        return {name: value for name, value in values.items() if name in self.model_fields_set}


class ResponseModel(BaseModel):
    """A response body, or a part of one.

    Its validator is built when it is first used: a command reads two or three of eighty.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", from_attributes=True, defer_build=True)
