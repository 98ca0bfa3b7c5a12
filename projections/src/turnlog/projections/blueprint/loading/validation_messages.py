"""Messages for pydantic validation errors: what is wrong, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from types import NoneType
from typing import Annotated, Final, cast, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.budget_specs import SHARE_PATTERN
from turnlog.projections.blueprint.schema.strict_model import (
    ADDRESS_PATTERN,
    HEADER_PATTERN,
    NAME_PATTERN,
    VARIABLE_PATTERN,
    WORD_PATTERN,
)
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFinding,
    DocumentPath,
    suggest_word,
)

_QUOTED_WORD: Final = re.compile(r"'([^']*)'")

_BACKTICKED_WORD: Final = re.compile(r"`([^`]*)`")

_KEY_MARK: Final = "[key]"
"""Pydantic's mark in a location for the key itself."""

_TYPE_FIXES: Final = {
    "bool_type": "write `true` or `false`",
    "dict_type": "write lines of `word: value`",
    "float_type": "write a number, without quotes",
    "int_type": "write a whole number, without quotes",
    "model_type": "write lines of `word: value`",
    "string_type": "write text; put quotes around what looks like a number",
    "tuple_type": "write a list: `[a, b]`",
}

_UNION_ERROR_TYPES: Final = frozenset(
    f"{each}_kind" for each in ("condition", "counter", "message", "resolver", "rule", "server")
) | {"layer_source"}
"""Error types of unions whose variants are recognised by a field."""

_PATTERN_MESSAGES: Final = {
    NAME_PATTERN: ("is not a name", "use a-z first, then a-z 0-9 _ -, at most 64 of them"),
    WORD_PATTERN: (
        "is not a name without digits",
        "use a-z first, then a-z _ -, at most 64 of them",
    ),
    VARIABLE_PATTERN: ("is no variable", "name one of the environment, such as `SHOP_TOKEN`"),
    HEADER_PATTERN: ("is no header", "write its name alone, such as `Authorization`"),
    SHARE_PATTERN: ("is no share of the limit", "write a percentage from `1%` to `99%`"),
}

_NO_LASTING_CUT: Final = (
    "only a step that leaves out the oldest of a history makes a lasting cut",
    "leave `to` out, or give it to `drop_oldest_pairs` or `drop_images`",
)


def explain_validation_error(
    error: ValidationError, kind: object = Blueprint
) -> Iterator[BlueprintFinding]:
    """Yield a finding for every validation error of a document that should be a `kind`."""
    for found in error.errors(include_url=False):
        path = tuple(step for step in found["loc"] if not _is_location_mark(step))
        what, fix = _explain_error(found, path, kind)
        yield BlueprintFinding(path, what, fix)


def _is_location_mark(step: str | int) -> bool:
    return step == _KEY_MARK or (isinstance(step, str) and step.startswith("("))


def _explain_error(found: ErrorDetails, path: DocumentPath, kind: object) -> tuple[str, str]:
    word = str(path[-1]) if path else "blueprint"
    message = found["msg"].removeprefix("Input should ").removeprefix("Value error, ")
    match found["type"]:
        case "extra_forbidden" if word == "to" and "ladder" in path:
            return _NO_LASTING_CUT
        case "string_type" if word == "to" and "ladder" in path:
            return _explain_pattern_mismatch(SHARE_PATTERN, found["input"])
        case "literal_error" if word == "to" and str(found["input"]).endswith("%"):
            return _NO_LASTING_CUT[0], "write what the results are replaced by, such as `digest`"
        case "extra_forbidden":
            words = list_words_at(found["loc"][:-1], kind)
            return f"`{word}` means nothing here", suggest_word(word, words)
        case "missing":
            return f"`{word}` is missing", f"add `{word}:`"
        case "literal_error":
            known = _QUOTED_WORD.findall(found["ctx"]["expected"]) if "ctx" in found else ()
            return f"`{found['input']}` means nothing here", suggest_word(
                str(found["input"]), known
            )
        case "string_pattern_mismatch" if "ctx" in found:
            return _explain_pattern_mismatch(found["ctx"]["pattern"], found["input"])
        case plain if plain in _TYPE_FIXES:
            return f"it must {message}", _TYPE_FIXES[plain]
        case plain if plain in _UNION_ERROR_TYPES:
            return message, _suggest_union_word(_BACKTICKED_WORD.findall(message), found["input"])
        case "too_short" | "string_too_short":
            return "it is empty", "write at least one"
        case "value_error":
            return message, "leave it at one"
        case _:
            return f"it must {message[:1].lower()}{message[1:]}", "change the value"


def _explain_pattern_mismatch(pattern: str, written: object) -> tuple[str, str]:
    """Explain a pattern mismatch; an address is not repeated, because it may contain a secret."""
    if pattern == ADDRESS_PATTERN:
        what = "it is no address that may be written down"
        return what, "write `https://host/path`, without a user, a query or a fragment"
    what, fix = _PATTERN_MESSAGES.get(
        pattern, ("has a form that it may not have", "change the value")
    )
    return f"`{written}` {what}", fix


def _suggest_union_word(known: list[str], written: object) -> str:
    """Suggest the known word that is nearest to one of the written words."""
    words = map(str, cast("dict[object, object]", written)) if isinstance(written, dict) else ()
    suggestions = (near for word in words for near in get_close_matches(word, known, n=1))
    forms = ", ".join(f"`{each}: ...`" for each in known)
    return next((f"write `{near}`" for near in suggestions), f"write one of them: {forms}")


def list_words_at(loc: tuple[str | int, ...], kind: object) -> tuple[str, ...]:
    """Return the fields that a document may have at a pydantic location."""
    for step in loc:
        kind = _remove_optional(_resolve_inner_type(kind, step))
    return tuple(_map_fields_by_alias(kind))


def _map_fields_by_alias(kind: object) -> dict[str, FieldInfo]:
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return {}
    return {field.alias or name: field for name, field in kind.model_fields.items()}


def _remove_optional(kind: object) -> object:
    """Return the type without None."""
    forms = get_args(kind)
    return next(form for form in forms if form is not NoneType) if NoneType in forms else kind


def _resolve_inner_type(kind: object, step: str | int) -> object:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = _map_fields_by_alias(kind).get(str(step))
        return field and field.annotation
    inner = get_args(kind)
    if get_origin(kind) is Annotated:
        return _resolve_inner_type(inner[0], step)
    if get_origin(kind) is dict:
        return inner[1]
    if get_origin(kind) is tuple:
        return inner[0]
    tagged = (get_args(form) for form in inner if get_origin(form) is Annotated)
    return next((form for form, *marks in tagged if Tag(str(step)) in marks), None)
