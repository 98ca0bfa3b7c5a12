"""Writes the reference of the HTTP routes; a test fails when it is stale."""

from __future__ import annotations

import json
from pathlib import Path

from turnlog.services.gateway.app import build_openapi, create_routed_app

FILE = Path(__file__).parents[1] / "reference/openapi.json"

if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(
        json.dumps(build_openapi(create_routed_app()), indent=1, ensure_ascii=False) + "\n"
    )
    print(FILE)
