"""The commands that erase, and how receipts are shown."""
