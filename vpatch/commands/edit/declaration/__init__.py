"""The lines of a patch.yaml: as few as possible change."""
