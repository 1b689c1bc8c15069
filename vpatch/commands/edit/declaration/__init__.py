"""The lines of a patch.yaml, of which as few as possible change."""
