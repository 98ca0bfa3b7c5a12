"""`turnlog top`: all sessions at once, live in a terminal."""
