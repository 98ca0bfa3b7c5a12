"""The AsyncAPI document as a gateway serves it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.services.gateway.gateway_service import RunningGateway

REFERENCE = Path(__file__).parents[4] / "docs/reference/asyncapi.json"


async def test_gateway_serves_the_asyncapi_document_of_the_reference(stand: RunningGateway) -> None:
    served = await stand.http.get("/asyncapi.json")
    assert served.headers["content-type"] == "application/json"
    assert served.json() == json.loads(REFERENCE.read_text())
