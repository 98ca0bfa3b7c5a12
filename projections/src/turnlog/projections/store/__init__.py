"""The read models in SQL: rows folded from events, and the queries on them.

Every row can be deleted and rebuilt from the log. This is the only package of the projections that
does I/O and that imports sqlalchemy.
"""
