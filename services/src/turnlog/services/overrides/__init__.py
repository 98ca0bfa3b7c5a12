"""The own prompts of users, in place of prompt files of a blueprint."""
