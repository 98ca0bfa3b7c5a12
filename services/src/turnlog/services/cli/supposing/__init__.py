"""What if: a change is brought along, asked about, and shown."""
