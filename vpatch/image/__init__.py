"""A lock becomes an image: modes, build contexts, labels, verification.

`payload` has the scripts that run in an image's Python, without vpatch. It may import `docker`,
`checkout`, `engine` and what lies below them.
"""

from pathlib import Path

# What runs in an image's Python, where vpatch is not.
PAYLOAD = Path(__file__).parent / "payload"
