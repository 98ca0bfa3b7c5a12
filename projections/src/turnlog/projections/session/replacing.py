"""`dataclasses.replace`, at a tenth of its cost, for frozen values without slots.

The fold makes a new state with every event, and the library's way looks up and checks each field
of a state anew each time. All fields are copied here at once, which is why what is replaced in
the fold has no slots; nothing is checked that type checkers have not checked before, so
`__init__` and `__post_init__` are not run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import replace as replace  # noqa: PLC0414 re-exported
else:

    def replace(value, /, **changes):  # noqa: ANN001, ANN003, ANN201 typed as the library's own
        """Give the same value with some fields changed."""
        made = object.__new__(type(value))
        object.__setattr__(made, "__dict__", value.__dict__ | changes)
        return made
