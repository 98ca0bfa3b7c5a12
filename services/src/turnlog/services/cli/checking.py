from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from turnlog.services.cli.console import answers, print_json
from turnlog.services.cli.screens.blueprints import fault_list
from turnlog.services.cli.show import Form
from turnlog.services.runtime.examining import examine


def check(folders: Sequence[Path], form: Form) -> bool:
    """Print the faults of each folder; return whether there are none."""
    found = {str(folder): examine(folder.absolute()) for folder in folders}
    if form == "json":
        print_json(
            {folder: [asdict(fault) for fault in faults] for folder, faults in found.items()}
        )
    else:
        for folder, faults in found.items():
            answers().print(fault_list(folder, faults))
    return not any(found.values())
