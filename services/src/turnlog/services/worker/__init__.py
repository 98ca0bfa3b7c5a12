"""The process that claims turns, calls models and publishes what they say."""
