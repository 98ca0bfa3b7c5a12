"""Segments from YAML, CSV and SQL files as rows, or faults with file and line."""
