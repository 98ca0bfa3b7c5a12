"""Which parameters a call may set, asked once more at the door to litellm.

litellm takes addresses, keys, headers and callbacks by the same door as the temperature, so
what a blueprint may not say is refused here too rather than passed on.
"""

from __future__ import annotations

from collections.abc import Mapping

from turnlog.projections.blueprint.parameters import PARAMETERS
from turnlog.services.worker.model.failures import ModelFailure


def checked(parameters: Mapping[str, object]) -> Mapping[str, object]:
    """The same parameters; fails with `bad_request` when one is not allowed."""
    unknown = sorted(parameters.keys() - PARAMETERS)
    if unknown:
        raise ModelFailure("bad_request", f"parameters not allowed: {', '.join(unknown)}")
    return parameters
