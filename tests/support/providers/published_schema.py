"""Checks of requests against the types of a published client library, and against own models."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from tests.support.providers.provider_dialogue import Body, UnacceptableRequest


class WireModel(BaseModel):
    """An object of a protocol: what the schema does not name is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


def check_model(kind: type[WireModel], body: Body) -> None:
    """Refuse a body that is not of a model."""
    try:
        kind.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UnacceptableRequest(f"{where}: {first['msg']}") from None


def check_typed_dict(kind: Any, body: Body) -> None:  # noqa: ANN401 - a type of a client library
    """Refuse a body with anything that the type of a request of a client library lacks."""
    for error in _build_validator(kind).iter_errors(body):
        where = ".".join(map(str, error.absolute_path))
        raise UnacceptableRequest(f"{where}: {error.message[:400]}")


@cache
def _build_validator(kind: Any) -> Draft202012Validator:  # noqa: ANN401 - as above
    schema: Any = TypeAdapter(kind).json_schema()
    return Draft202012Validator(_close_objects(schema))


def _close_objects(schema: Any) -> Any:  # noqa: ANN401 - JSON of any shape
    """Return a schema whose objects have no other members than those they name."""
    match schema:
        case [*items]:
            return [_close_objects(each) for each in items]
        case {"type": "object", "properties": {}, **_others}:
            return {**_close_members(schema), "additionalProperties": False}
        case {}:
            return _close_members(schema)
        case _:
            return schema


def _close_members(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: _close_objects(each) for name, each in schema.items()}
