"""The log of reads: who looked at what of the record, recorded before the answer is sent."""
