"""The processes of Turnlog and the command line; everything that runs is here."""
