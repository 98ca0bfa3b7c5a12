"""The commands on segments, and how their answers are shown."""
