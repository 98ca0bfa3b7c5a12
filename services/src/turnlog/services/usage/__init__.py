"""Usage: what turns used, in all and by group."""
