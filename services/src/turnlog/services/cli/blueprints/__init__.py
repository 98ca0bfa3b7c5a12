"""The commands on blueprints, and how their answers are shown."""
