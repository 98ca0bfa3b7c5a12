"""The read models in SQL: rows that events are folded into, and the questions asked of them.

Nothing in here is the truth: every row can be thrown away and had again from the log. This is the
one room of the projections that does I/O, and the one that imports sqlalchemy.
"""
