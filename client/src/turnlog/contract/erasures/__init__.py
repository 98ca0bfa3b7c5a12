"""What is sent and answered about erasures."""
