"""Exports of sessions: verifiable bundles, Parquet tables and Markdown transcripts."""
