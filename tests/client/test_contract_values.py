"""The contract installs without the record, so a few limits of values are declared in both."""

from __future__ import annotations

from pydantic import TypeAdapter

from turnlog.contract import payload_models, request_values
from turnlog.projections.blueprint import storable_json
from turnlog.projections.blueprint.schema import strict_model


def test_contract_has_the_limits_of_the_record() -> None:
    assert payload_models.MAX_INT == storable_json.MAX_INT
    names = [TypeAdapter(each.ModelName).json_schema() for each in (request_values, strict_model)]
    assert names[0] == names[1]
    assert request_values.MAX_KEY_CHARACTERS == strict_model.MAX_KEY_CHARACTERS
