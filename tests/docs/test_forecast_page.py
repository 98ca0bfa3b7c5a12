"""The table of the forecast's page is what the back-test wrote, and so are the figures shown."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.forecast_backtest import COMMAND, TABLE_FILE, format_table
from benchmarks.support.played_sessions import PLAYED_KINDS
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.use_cases.prompts.session_forecasts import BACKTEST_FILE

ROOT = Path(__file__).parents[2]


def test_table_of_the_page_is_that_of_the_figures_that_the_service_shows() -> None:
    report = json.loads(BACKTEST_FILE.read_text())
    page = (ROOT / TABLE_FILE).read_text()
    assert format_table(report) in page
    assert COMMAND in page
    assert report["sessions"] >= 200


def test_back_test_plays_every_shipped_blueprint() -> None:
    assert {kind.blueprint for kind in PLAYED_KINDS} == set(BlueprintFolders().list_names())
    report = json.loads(BACKTEST_FILE.read_text())
    assert list(report["kinds"]) == [kind.name for kind in PLAYED_KINDS]
