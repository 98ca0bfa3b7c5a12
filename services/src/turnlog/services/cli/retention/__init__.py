"""The commands on retention and holds, and how answers are shown."""
