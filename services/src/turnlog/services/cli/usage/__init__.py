"""The commands on usage, and how their answers are shown."""
