"""The knowledge search of a process: embedders, and searches asked and answered over NATS."""
