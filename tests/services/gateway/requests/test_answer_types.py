"""What the gateway takes and returns is described in its OpenAPI document.

Dataclasses that it returns are documented as strictly as its own payloads: their pydantic
configuration comes from the payload that contains them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.services.gateway.requests.route_table import DOCUMENT
from turnlog.contract.call_payloads import AttemptRow, CallRow
from turnlog.contract.session_payloads import OriginRow, RecordedChoice, SessionRow
from turnlog.contract.turn_payloads import PhaseVisit, TurnPlanStep, TurnToolUse
from turnlog.projections.audit.verify.audit_findings import AuditFinding
from turnlog.projections.audit.verify.verdicts import ReproductionCounts
from turnlog.projections.audit.what_if.reassembled_calls import PromptAlteration, PromptSize
from turnlog.projections.audit.what_if.what_if_report import AlterationCount, RefusalCount
from turnlog.services.api.segment_payloads import SegmentRow

HOUSE: Final = Path(__file__).parents[4]

SCHEMAS: Final[dict[str, Any]] = DOCUMENT["components"]["schemas"]


def iterate_described_fields() -> Iterator[tuple[str, str]]:
    """Yield each class and field with a string below it in the source; class names are unique."""
    for module in HOUSE.glob("*/src/turnlog/**/*.py"):
        _, *classes = re.split(r"^class (\w+)", module.read_text(), flags=re.MULTILINE)
        for name, body in zip(classes[::2], classes[1::2], strict=True):
            for field in re.findall(r'^    (\w+):[^\n]*\n    """', body, re.MULTILINE):
                yield name, field


def test_every_field_described_in_the_source_is_described_in_openapi() -> None:
    published = [
        (name, field)
        for name, field in iterate_described_fields()
        if field in SCHEMAS.get(name, {}).get("properties", {})
    ]
    assert len(published) > len(SCHEMAS)
    undescribed = [
        f"{name}.{field}"
        for name, field in published
        if "description" not in SCHEMAS[name]["properties"][field]
    ]
    assert undescribed == []


def test_every_parameter_outside_paths_is_described_in_openapi() -> None:
    undescribed = [
        f"{method} {path} {parameter['name']}"
        for path, operations in DOCUMENT["paths"].items()
        for method, operation in operations.items()
        for parameter in operation.get("parameters", ())
        if parameter["in"] != "path" and "description" not in parameter
    ]
    assert undescribed == []


@pytest.mark.parametrize(
    "answer_type",
    [
        AlterationCount,
        AttemptRow,
        AuditFinding,
        CallRow,
        OriginRow,
        PhaseVisit,
        PromptAlteration,
        PromptSize,
        RecordedChoice,
        RefusalCount,
        ReproductionCounts,
        SegmentRow,
        SessionRow,
        TurnPlanStep,
        TurnToolUse,
    ],
)
def test_returned_dataclasses_describe_every_field_and_forbid_additional_ones(
    answer_type: type,
) -> None:
    schema = SCHEMAS[answer_type.__name__]
    assert schema["additionalProperties"] is False
    undescribed = [
        name for name, field in schema["properties"].items() if "description" not in field
    ]
    assert undescribed == []


def test_openapi_descriptions_use_null_instead_of_none() -> None:
    assert re.findall(r"\bNone\b", json.dumps(DOCUMENT)) == []
