"""Reads a file of rules: YAML with a list `alerts`, each fault with its line and what to write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue, ValidationError

from turnlog.contract.alert_payloads import AlertRuleForm
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.loading.yaml_document import load_yaml
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    BlueprintFinding,
    DocumentPath,
    LineNumbers,
    locate_finding,
    suggest_word,
)
from turnlog.services.alerts.rule_forms import create_rules

_LIST_FIX = "write a list `alerts` of rules, each with at least `name`, `measure` and `above`"


def read_alert_file(file: Path) -> Sequence[Mapping[str, Any]]:
    """Return the rules of a file; raises `Refused` with every fault of their form."""
    document = load_yaml(file.read_text(errors="replace"), str(file))
    if document.faults:
        raise _create_refusal(document.faults)
    value = document.value
    rows = value.get("alerts") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(rows, list):
        finding = BlueprintFinding((), "it is no list of alerts", _LIST_FIX)
        raise _create_refusal([locate_finding(str(file), document.lines, finding)])
    findings = [found for number, row in enumerate(rows) for found in _check_form(number, row)]
    if not findings:
        findings = [*_check_rules(rows)]
    if findings:
        raise _create_refusal(_locate(str(file), document.lines, findings))
    return [dict(row) for row in rows if isinstance(row, dict)]


def _locate(
    file: str, lines: LineNumbers, findings: Sequence[BlueprintFinding]
) -> Sequence[BlueprintFault]:
    return [locate_finding(file, lines, each) for each in findings]


def _check_form(number: int, row: JsonValue) -> Iterator[BlueprintFinding]:
    """Find the fields that are missing, unknown, or of another form."""
    try:
        AlertRuleForm.model_validate(row)
    except ValidationError as error:
        for each in error.errors(include_url=False):
            path: DocumentPath = ("alerts", number, *each["loc"])
            yield BlueprintFinding(path, each["msg"][0].lower() + each["msg"][1:], _find_fix(each))


def _find_fix(error: Mapping[str, Any]) -> str:
    names = [field.alias or name for name, field in AlertRuleForm.model_fields.items()]
    match error["type"]:
        case "extra_forbidden":
            return suggest_word(str(error["loc"][-1]), names)
        case "missing":
            return "add it"
        case "literal_error":
            known = str(error["ctx"]["expected"]).replace(" or ", ", ").replace("'", "")
            return suggest_word(str(error["input"]), known.split(", "))
        case _:
            return "correct it"


def _check_rules(rows: Sequence[JsonValue]) -> Iterator[BlueprintFinding]:
    """Find the first rule that cannot be what it is."""
    try:
        create_rules([AlertRuleForm.model_validate(row) for row in rows])
    except Refused as refused:
        steps = (refused.field or "alerts").split(".")
        path = tuple(int(step) if step.isdecimal() else step for step in steps)
        yield BlueprintFinding(path, refused.detail, refused.fix or "correct it")


def _create_refusal(faults: Sequence[BlueprintFault]) -> Refused:
    first, detail = faults[0], "\n".join(str(each) for each in faults)
    return Refused("faulty-alert", detail, field=first.path or "alerts", fix=first.fix)
