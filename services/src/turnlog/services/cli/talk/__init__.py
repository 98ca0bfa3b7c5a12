"""Talk to a session over HTTP, as `chat` and the demo do."""
