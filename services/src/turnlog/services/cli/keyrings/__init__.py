"""The keyring at the command line: its generations, and the end of one."""
