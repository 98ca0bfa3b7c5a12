"""Erasures: keys of words are removed, with a receipt that names everything that was under them."""
