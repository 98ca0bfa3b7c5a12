"""The HTTP gateway: submits turns and reads everything about sessions, under `/v1`."""
