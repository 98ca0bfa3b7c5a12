"""What can be asked of Turnlog, whichever door it comes through: typed commands in, results out.

A use case holds only the parts it works with and knows no HTTP. It raises the four kinds of errors
of `events.errors`; a door says them in its own protocol. The use cases of a feature that has a
folder of its own, such as quotas, are in that folder.
"""
