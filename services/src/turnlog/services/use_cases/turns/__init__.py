"""Submitting turns and questions, watching them, and reading them later."""
