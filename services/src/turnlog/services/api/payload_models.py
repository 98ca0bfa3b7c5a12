"""The base classes of everything that the gateway and its clients exchange.

Requests and responses have a closed set of fields. No request has a field for a model's address,
key or parameters: those belong to the blueprint and the operator. A request model checks only the
shape; the blueprint decides which values are valid. Every response about a session has the sequence
it reflects. A text that is sealed or erased is null.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class RequestModel(BaseModel):
    """A request body; unknown fields are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True
    )


class ResponseModel(BaseModel):
    """A response body, or a part of one."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", from_attributes=True, use_attribute_docstrings=True
    )
