"""Events of the histories that belong to a tenant and not to one session."""
