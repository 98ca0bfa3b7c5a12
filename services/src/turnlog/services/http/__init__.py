"""What every route is made of: who asks, checks, headers, errors and middleware."""
