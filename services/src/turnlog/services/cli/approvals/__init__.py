"""The command that lists approvals of all sessions."""
