"""The descriptions of fields and query parameters in the OpenAPI document.

They are the strings below the fields in the source. With `use_attribute_docstrings`, pydantic would
read them while it creates each class, at every start. Here they are read for the document alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import isclass
from typing import Any

from fastapi.openapi.utils import get_fields_from_routes
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.routing import BaseRoute

from turnlog.services.api.published_events.field_docstrings import (
    add_field_descriptions,
    collect_classes,
    read_field_descriptions,
)


def add_descriptions(document: dict[str, Any], routes: Sequence[BaseRoute]) -> None:
    """Add the descriptions of a document's components and of its routes' query parameters."""
    schemas = document["components"]["schemas"]
    bodies = (field.field_info.annotation for field in get_fields_from_routes(routes))
    for kind in collect_classes(bodies):
        if kind.__name__ in schemas:
            add_field_descriptions(schemas[kind.__name__], kind)
    for route in _iterate_published_routes(routes):
        for method in route.methods or ():
            _describe_parameters(document["paths"][route.path_format][method.lower()], route)


def _iterate_published_routes(routes: Sequence[BaseRoute]) -> Iterator[APIRoute]:
    for context in iter_route_contexts(routes):
        route = context.original_route
        if isinstance(route, APIRoute) and route.include_in_schema:
            yield route


def _describe_parameters(operation: dict[str, Any], route: APIRoute) -> None:
    """Add descriptions to parameters that are the fields of a query model."""
    for field in route.dependant.query_params:
        kind = field.field_info.annotation
        descriptions = read_field_descriptions(kind) if isclass(kind) else {}
        for parameter in operation.get("parameters", ()):
            if text := descriptions.get(parameter["name"]):
                parameter["description"] = parameter["schema"]["description"] = text
