"""Everything in one process, on one machine: what `turnlog up` starts."""
