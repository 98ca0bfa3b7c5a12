from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from turnlog.services.cli.console import create_output_console, print_json
from turnlog.services.cli.screens.blueprints import render_blueprint_faults
from turnlog.services.cli.show import OutputFormat
from turnlog.services.runtime.examining import check_blueprint_folder


def check_blueprint_folders(folders: Sequence[Path], output: OutputFormat) -> bool:
    """Print the faults of each folder; return whether there are none."""
    found = {str(folder): check_blueprint_folder(folder.absolute()) for folder in folders}
    if output == "json":
        print_json(
            {folder: [asdict(fault) for fault in faults] for folder, faults in found.items()}
        )
    else:
        for folder, faults in found.items():
            create_output_console().print(render_blueprint_faults(folder, faults))
    return not any(found.values())
