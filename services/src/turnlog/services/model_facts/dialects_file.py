"""A file of dialects: what the servers of models take, by patterns of the models' names.

Turnlog ships one, and an installation may have one of its own, in YAML or JSON. It is read when a
process starts, and refused with all that is wrong in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from turnlog.events.errors import Refused
from turnlog.events.model.attempt_figures import MAX_CACHE_LIFETIME
from turnlog.events.model.manifest import (
    CacheMarks,
    CallReasoning,
    PicturePlace,
    RequestDialect,
    RoleOrder,
    ToolNameRule,
    ToolReferences,
)
from turnlog.projections.blueprint.loading.validation_messages import explain_validation_error
from turnlog.projections.blueprint.loading.yaml_document import load_yaml
from turnlog.projections.blueprint.schema.call_specs import ALLOWED_MODEL_PARAMETERS
from turnlog.projections.blueprint.schema.strict_model import StrictModel
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    FaultyBlueprint,
    locate_finding,
)
from turnlog.projections.prompt.request_dialect import PLAIN_DIALECT

DIALECTS_VARIABLE: Final = "TURNLOG_MODEL_DIALECTS"


def _check_parameter(name: str) -> str:
    if name not in ALLOWED_MODEL_PARAMETERS:
        listed = {"listed": ", ".join(sorted(ALLOWED_MODEL_PARAMETERS))}
        raise PydanticCustomError("unknown_parameter", "Input should be one of {listed}", listed)
    return name


class ToolNameSpec(StrictModel):
    """The names of tools that a server takes; what it does not take is replaced in requests."""

    characters: Literal["word", "dashed", "dotted"] = "dashed"
    """`word`: letters and digits of ASCII, and `_`. `dashed`: `-` as well. `dotted`: `.` too."""
    first: Literal["any", "letter"] = "any"
    """Whether the first is any of them, or a letter or `_`."""
    length: Annotated[int, Field(ge=16, le=256)] = 64
    """The most characters."""


class PromptCacheSpec(StrictModel):
    """What a provider caches of prompts, of its own accord or where a request marks it."""

    minimum: Annotated[int, Field(ge=1)]
    """Tokens of the shortest prompt of which anything is cached."""
    step: Annotated[int, Field(ge=1)] | None = None
    """Tokens above these are cached in steps of this many; None for up to the marks in a prompt."""
    lifetime: Annotated[int, Field(ge=1, le=MAX_CACHE_LIFETIME)] | None = None
    """Seconds after its last use that a prompt is cached for at least; None if nobody says."""


class ModelDialect(StrictModel):
    """What the server of a model takes; each default means that nothing is known or changed."""

    roles: RoleOrder = "anywhere"
    """Which roles it takes at which places."""
    tool_refs: ToolReferences = "keep"
    """Whether it takes `$ref` in the schemas of tools."""
    parallel_tool_calls: bool | None = None
    """The parameter of that name in requests with tools; None sends it only where a call does."""
    refused_parameters: tuple[Annotated[str, AfterValidator(_check_parameter)], ...] = ()
    """Parameters of a blueprint that it refuses, and that are left out of requests."""
    response_format: bool | None = None
    """Whether it takes the schema of an answer as `response_format`."""
    cache_marks: CacheMarks = "none"
    """How its provider is asked to cache prompts."""
    prompt_cache: PromptCacheSpec | None = None
    """What its provider caches of prompts, for the bill of what was lost; None if nobody says."""
    images: bool | None = None
    """Whether the model reads pictures; with `false` a line stands in the place of each."""
    tool_pictures: PicturePlace = "result"
    """The message in which it takes the pictures of a tool's result."""
    call_reasoning: CallReasoning = "optional"
    """Whether it refuses tool calls without what was reasoned before them."""
    tool_names: ToolNameSpec | None = None
    """The names of tools that it takes; None for letters, digits, `_` and `-`, at most 64."""
    files: bool | None = None
    """Whether it reads files such as PDF; with `false` a line stands in the place of each."""
    audio: bool | None = None
    """Whether it reads recordings; with `false` a line stands in the place of each."""
    context_tokens: Annotated[int, Field(ge=1)] | None = None
    """Most tokens of a request."""

    def build_request_dialect(self, context_tokens: int | None = None) -> RequestDialect:
        """Return the fields that change a request, with a limit where a file states one."""
        named = self.tool_names
        return PLAIN_DIALECT.model_copy(
            update={
                "roles": self.roles,
                "tool_refs": self.tool_refs,
                "cache_marks": self.cache_marks,
                "parallel_tool_calls": self.parallel_tool_calls,
                "refused_parameters": tuple(sorted(set(self.refused_parameters))),
                "images": self.images is not False,
                "files": self.files is not False,
                "audio": self.audio is not False,
                "tool_pictures": self.tool_pictures,
                "call_reasoning": self.call_reasoning,
                "tool_names": ToolNameRule(**named.model_dump(), names_choice=True)
                if named
                else None,
                "context_tokens": context_tokens,
            }
        )


DialectsByPattern = dict[Annotated[str, Field(min_length=1)], ModelDialect]

_DIALECTS_FILE: Final = TypeAdapter(DialectsByPattern)


class FaultyDialectsFile(Refused):
    """A file of dialects that cannot be used; `faults` lists everything that is wrong with it."""

    def __init__(self, faults: Iterable[BlueprintFault]) -> None:
        self.faults = tuple(faults)
        detail = "\n".join(map(str, self.faults))
        fix = "correct the file of dialects"
        super().__init__("bad-setting", detail, field=DIALECTS_VARIABLE, fix=fix)


def load_dialects_file(file: Path) -> DialectsByPattern:
    """Read a file of dialects; raise `FaultyDialectsFile` with all its faults."""
    try:
        document = load_yaml(_read_text(file), str(file))
    except FaultyBlueprint as faulty:
        raise FaultyDialectsFile(faulty.faults) from None
    try:
        # Strict and from JSON, so that 8 is not a text while lists may become tuples.
        found = _DIALECTS_FILE.validate_json(json.dumps(document.value or {}), strict=True)
    except ValidationError as error:
        findings = explain_validation_error(error, DialectsByPattern)
        located = [locate_finding(str(file), document.lines, each) for each in findings]
        raise FaultyDialectsFile((*document.faults, *located)) from None
    if document.faults:
        raise FaultyDialectsFile(document.faults)
    return found


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        what, fix = error.strerror or type(error).__name__, "name a file that can be read"
    except UnicodeDecodeError as error:
        what, fix = f"byte {error.start} is not UTF-8", "save it as UTF-8"
    raise FaultyDialectsFile([BlueprintFault(file=str(file), line=1, path="", what=what, fix=fix)])
