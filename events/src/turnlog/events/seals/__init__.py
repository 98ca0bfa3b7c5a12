"""Sealing: what people and models say is encrypted at rest, under keys that can be punctured.

A session has one tree of keys, from which a key can be removed for good while all others stay. An
event of a sealed session has its words in one box, and so has a blob of a turn. Reading them needs
the record of the session's keys and the keyring that it is wrapped under.
"""
