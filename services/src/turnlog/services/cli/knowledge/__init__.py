"""The commands on knowledge, and how their answers are shown."""
