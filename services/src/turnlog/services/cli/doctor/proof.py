from __future__ import annotations

import time
from pathlib import Path

from turnlog.services.cli.doctor.finding import CheckFinding, report_good, report_warning
from turnlog.services.runtime.signing import KEY_FILE

_LOG_DIRECTORY = "jetstream"


def check_checkpoints(data_dir: Path) -> CheckFinding:
    """Check whether a checkpoint was ever signed here; where it is stored is not known."""
    key = data_dir / KEY_FILE
    if key.is_file():
        since = time.strftime("%Y-%m-%d", time.localtime(key.stat().st_mtime))
        return report_good("checkpoints", f"signed since {since}, by {key}")
    if not (data_dir / _LOG_DIRECTORY).is_dir():
        return report_good("checkpoints", "nothing to sign yet")
    fix = "`turnlog checkpoint FILE`, and keep it where nobody who writes to the log can write"
    return report_warning("checkpoints", "none was signed here, so a cut end would not show", fix)
