"""The one room that speaks to servers of tools.

`exchange` says what they are asked and how they fail; `mcp_servers` asks real ones; `tooling` pins
what they offer and runs what a turn asked for.
"""
