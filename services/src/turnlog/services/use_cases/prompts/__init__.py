"""What calls were, would be or might have been sent, and what they took."""
