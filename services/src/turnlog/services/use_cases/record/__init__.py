"""The record for those who check it: events, exports, verification and explanations."""
