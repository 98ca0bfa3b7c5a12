"""The commands on overrides, and how their answers are shown."""
