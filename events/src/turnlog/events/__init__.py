"""What can happen in a session, as typed events, and the log that holds them."""
