"""How the terminal shows what belongs to a tenant."""
