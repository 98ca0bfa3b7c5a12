"""What a service and its clients exchange over HTTP: each shape stands here once."""
