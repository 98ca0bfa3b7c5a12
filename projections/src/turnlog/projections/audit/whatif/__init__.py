"""What if: recorded calls, assembled again under a change that was never made."""
