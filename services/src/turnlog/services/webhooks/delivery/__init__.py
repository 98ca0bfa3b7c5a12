"""The delivery of events to webhooks: who delivers, in which order, and what is tried again."""
