"""The one package that calls tool servers.

`tool_server_types` defines the protocol and its failures, `mcp_servers` calls real servers, and
`tool_runner` pins what they offer and runs what a turn requested.
"""
