"""Segments from files: YAML, CSV and SQL dumps become rows, or faults with file and line."""
