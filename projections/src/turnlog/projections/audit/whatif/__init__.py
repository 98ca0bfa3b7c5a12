"""What-if: recorded calls, assembled again under a hypothetical change."""
