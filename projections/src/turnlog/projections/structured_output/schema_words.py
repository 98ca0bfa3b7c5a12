"""Words of a JSON Schema that have no effect, because JSON Schema does not know them.

They are allowed, so `max: 5` for `maximum: 5` is a schema that accepts 9.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

_WORDS: Final = """
    $anchor $comment $defs $dynamicAnchor $dynamicRef $id $ref $schema $vocabulary
    additionalProperties allOf anyOf const contains contentEncoding contentMediaType contentSchema
    default definitions dependentRequired dependentSchemas deprecated description else enum examples
    exclusiveMaximum exclusiveMinimum format if items maxContains maxItems maxLength maxProperties
    maximum minContains minItems minLength minProperties minimum multipleOf not oneOf pattern
    patternProperties prefixItems properties propertyNames readOnly required then title type
    unevaluatedItems unevaluatedProperties uniqueItems writeOnly
"""

SCHEMA_WORDS: Final = frozenset(_WORDS.split())
"""The words of JSON Schema 2020-12, and the older `definitions`."""

_SCHEMAS_BY_NAME: Final = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)
"""Words whose value has schemas under names of the author's."""

_VALUES: Final = frozenset({"const", "default", "enum", "examples"})
"""Words whose value is no schema, whatever is in it."""


def iterate_unknown_words(schema: JsonValue) -> Iterator[str]:
    """Yield the words that have no effect in a schema and in those within it."""
    if isinstance(schema, list):
        for each in schema:
            yield from iterate_unknown_words(each)
    elif isinstance(schema, dict):
        yield from (word for word in schema if _is_unknown(word))
        for inner in _iterate_inner_schemas(schema):
            yield from iterate_unknown_words(inner)


def _is_unknown(word: str) -> bool:
    return word not in SCHEMA_WORDS and not word.startswith("x-")


def _iterate_inner_schemas(schema: Mapping[str, JsonValue]) -> Iterator[JsonValue]:
    for word, value in schema.items():
        if word in _SCHEMAS_BY_NAME and isinstance(value, dict):
            yield from value.values()
        elif word not in _VALUES and not _is_unknown(word):
            yield value
