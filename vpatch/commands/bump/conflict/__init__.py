"""A bump that waits for a person: its record, and its two ends."""
