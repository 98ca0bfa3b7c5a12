"""Who sends a request, what that principal may do, and how each way of signing in is checked."""
