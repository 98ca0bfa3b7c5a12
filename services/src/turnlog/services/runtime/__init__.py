"""What every process shares: its connection to the log, its server, its ending."""
