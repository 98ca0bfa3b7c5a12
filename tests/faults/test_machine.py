"""The whole service used and attacked in any order, compared with a small model of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.faults.attacked_service import run_background_service
from tests.faults.clients.client_history import ClientHistory
from tests.faults.service_machine import build_machine
from tests.faults.suite_extent import RUN_EVERYTHING

pytestmark = pytest.mark.slow("processes are attacked and have to recover")

EXAMPLES = 100 if RUN_EVERYTHING else 3
STEPS = 40 if RUN_EVERYTHING else 20


@pytest.mark.promise("P1", "P3", "P4", "P6", "P7", "P8", "P9", "P10")
@pytest.mark.timeout(7200 if RUN_EVERYTHING else 900)
def test_service_matches_its_model_in_any_order_of_actions(tmp_path: Path) -> None:
    lived: list[ClientHistory] = []
    with run_background_service(tmp_path) as stage:
        run_state_machine_as_test(
            build_machine(stage, lived),
            # Without it the few first examples do next to nothing.
            _min_steps=STEPS // 2,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                database=None,
                derandomize=not RUN_EVERYTHING,
                # A failing example is reported as it ran, because a smaller one would be another
                # run.
                phases=(Phase.explicit, Phase.generate),
                suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
            ),
        )
    tries = [each for history in lived for each in history.tries]
    assert {each.what for each in tries if each.accepted} >= {"open", "submit"}
    assert len(tries) > 5 * EXAMPLES, "the examples did next to nothing"
