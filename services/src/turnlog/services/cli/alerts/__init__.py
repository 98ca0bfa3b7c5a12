"""The commands on alerts, their files, and how answers are shown."""
