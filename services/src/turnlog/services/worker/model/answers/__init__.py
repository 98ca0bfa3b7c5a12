"""Read what a provider streams: chunks, tool calls in pieces, usage, the end of an answer."""
