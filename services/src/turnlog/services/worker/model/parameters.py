from __future__ import annotations

from collections.abc import Mapping

from turnlog.projections.blueprint.parameters import ALLOWED_MODEL_PARAMETERS
from turnlog.services.worker.model.failures import ModelFailure


def check_parameters(parameters: Mapping[str, object]) -> Mapping[str, object]:
    """Return the parameters; fails with `bad_request` if one is not allowed.

    litellm takes addresses, keys, headers and callbacks by the same arguments as the temperature.
    What a blueprint may not set is therefore refused here as well.
    """
    unknown = sorted(parameters.keys() - ALLOWED_MODEL_PARAMETERS)
    if unknown:
        raise ModelFailure("bad_request", f"parameters not allowed: {', '.join(unknown)}")
    return parameters
