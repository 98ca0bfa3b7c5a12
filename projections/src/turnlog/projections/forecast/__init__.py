"""The forecast of a session: when a prompt is next cut or summarised, and by which rule.

Recorded turns are drawn and continue the session, and the real assembler makes their prompts. The
same record gives the same forecast: what is drawn follows from the digest of the session's head.
"""
