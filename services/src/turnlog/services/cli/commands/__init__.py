"""The commands: what each takes and what it is for. The work is done elsewhere, imported late."""
