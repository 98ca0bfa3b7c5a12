"""Declarations of the commands: options and help texts.

A declaration imports its action when it is called, so that `--help` stays fast.
"""
