"""Dataclasses that the gateway returns are documented as strictly as its own payloads.

Their pydantic configuration comes from the payload that contains them.
"""

from __future__ import annotations

import pytest

from tests.services.gateway.requests.route_table import DOCUMENT
from turnlog.projections.audit.verify.verification_report import AuditFinding, ReproductionCounts
from turnlog.projections.audit.what_if.reassembled_calls import PromptAlteration, PromptSize
from turnlog.projections.audit.what_if.what_if_report import AlterationCount, RefusalCount
from turnlog.projections.read_models.phase_visits import PhaseVisit
from turnlog.projections.read_models.turn_activity import TurnPlanStep, TurnToolUse
from turnlog.projections.session.state import RecordedChoice
from turnlog.projections.store.read.row_types import (
    AttemptRow,
    CallRow,
    OriginRow,
    SegmentRow,
    SessionRow,
)


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
def test_every_field_of_a_returned_dataclass_is_described_and_none_is_added(
    answer_type: type,
) -> None:
    schema = DOCUMENT["components"]["schemas"][answer_type.__name__]
    assert schema["additionalProperties"] is False
    undescribed = [
        name for name, field in schema["properties"].items() if "description" not in field
    ]
    assert undescribed == []
