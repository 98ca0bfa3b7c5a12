"""The names of the roles of an installation, which settings name before anything else is there."""

from __future__ import annotations

from typing import Literal

RoleName = Literal["caller", "watcher", "operator", "auditor", "administrator"]
"""What a principal is for."""
