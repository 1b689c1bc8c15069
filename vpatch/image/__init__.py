from pathlib import Path

# What runs in an image's Python, where vpatch is not.
INSIDE = Path(__file__).parent / "inside"
