"""What belongs to a tenant and not to one session."""
