"""Actions of the commands for what belongs to a tenant."""
