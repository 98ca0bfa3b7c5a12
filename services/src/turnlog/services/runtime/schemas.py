from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.faults import DocumentPath, BlueprintFinding, suggest_word
from turnlog.projections.blueprint.output import OutputSpec
from turnlog.projections.blueprint.schema import Blueprint, CallSpec
from turnlog.projections.structured.fitting import JsonSchema
from turnlog.projections.structured.judging import find_schema_fault
from turnlog.services.runtime.files import FolderFiles


def resolve_schemas(files: FolderFiles, blueprint: Blueprint) -> Blueprint:
    """Return a blueprint with its output schemas inlined; unreadable ones stay file names."""
    calls = {name: _resolve_call_schema(files, call) for name, call in blueprint.calls.items()}
    return blueprint.model_copy(update={"calls": calls}) if calls != blueprint.calls else blueprint


def _resolve_call_schema(files: FolderFiles, call: CallSpec) -> CallSpec:
    spec = call.output
    if spec is None or not isinstance(spec.schema_, str) or spec.schema_ == "plan":
        return call
    try:
        schema = _read_schema(files, spec.schema_)
    except Refused:
        return call
    said = spec.model_dump(exclude_unset=True, by_alias=True)
    output = OutputSpec.model_validate(said | {"schema": schema})
    return call.model_copy(update={"output": output})


def check_output_schemas(files: FolderFiles, blueprint: Blueprint) -> Iterator[BlueprintFinding]:
    """Yield what is wrong with a blueprint's output schemas."""
    acting = {profile.act for profile in blueprint.profiles.values()}
    for name, call in blueprint.calls.items():
        path = ("calls", name, "output")
        if call.output is not None and name in acting:
            yield BlueprintFinding(path, "a step's call asks for tools, its text is not read", "leave it out")
        elif call.output is not None:
            yield from _check_output_schema(files, (*path, "schema"), call.output)


def _check_output_schema(files: FolderFiles, path: DocumentPath, spec: OutputSpec) -> Iterator[BlueprintFinding]:
    schema = spec.schema_
    if schema == "plan":
        return
    try:
        written = schema if isinstance(schema, dict) else _read_schema(files, schema)
    except Refused as refused:
        yield BlueprintFinding(path, refused.detail, refused.fix)
        return
    if fault := find_schema_fault(written):
        yield BlueprintFinding(path, fault, "write a JSON Schema that refers to nothing outside itself")


def _read_schema(files: FolderFiles, file: str) -> JsonSchema:
    text = files.read_text(file, "output.schema")
    if text is None:
        near = suggest_word(file, files.list_names())
        raise Refused("unknown-schema", f"there is no `{file}` beside the blueprint", fix=near)
    try:
        found: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused("bad-schema", f"{file}: it is no JSON", fix="mend the file") from None
    if not isinstance(found, dict):
        raise Refused("bad-schema", f"{file}: it is no JSON object", fix="mend the file")
    return found
