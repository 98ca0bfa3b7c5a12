"""The command on uses of a source, and how its answer is shown."""
