"""What the events of webhooks mean: subscriptions, and which events each of them gets."""
