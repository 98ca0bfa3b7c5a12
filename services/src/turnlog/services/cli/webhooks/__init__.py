"""The commands on webhooks, and how their answers are shown."""
