"""The request and response models that the gateway and its clients exchange."""
