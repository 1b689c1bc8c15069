"""Wheels as files: their members, their RECORD, and those that an index has."""
