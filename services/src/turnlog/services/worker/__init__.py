"""The process that claims turns, calls models and publishes their answers."""
