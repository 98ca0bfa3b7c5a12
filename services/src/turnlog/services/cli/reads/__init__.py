"""The command on the log of reads, and how its answers are shown."""
