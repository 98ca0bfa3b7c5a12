"""The commands on quotas, and how their answers are shown."""
