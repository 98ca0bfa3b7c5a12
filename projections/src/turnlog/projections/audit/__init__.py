"""The audit: what a record tells of calls that were made, computed from the record alone."""
