"""Sample servers that the demo and the shipped blueprints use: a resolver and an MCP server."""
