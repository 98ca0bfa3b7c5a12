"""The closed forms of what is sent and what is answered."""
