"""Schemas of strangers: how much work one of them can make."""

from __future__ import annotations

import pytest

from turnlog.projections.blueprint.storable_json import JsonObject
from turnlog.projections.structured_output.schema_validation import (
    MAX_VALIDATION_STEPS,
    find_schema_fault,
    find_violation,
)


@pytest.mark.slow("it takes as many steps as are allowed")
def test_references_that_double_at_each_step_end_at_the_limit_of_steps() -> None:
    definitions: JsonObject = {
        f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}, {"$ref": f"#/$defs/d{at + 1}"}]}
        for at in range(40)
    }
    definitions["d40"] = {"type": "string"}
    schema: JsonObject = {"$ref": "#/$defs/d0", "$defs": definitions}
    assert find_schema_fault(schema) is None
    assert (found := find_violation("text", schema))
    assert found.rule == f"it takes more than {MAX_VALIDATION_STEPS} steps to check"
    assert find_violation("text", {"type": "string"}) is None
