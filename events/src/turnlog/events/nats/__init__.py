"""The log on NATS JetStream, and the typed consumer for whoever only wants to read it."""
