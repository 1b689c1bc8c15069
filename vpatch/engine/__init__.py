"""Environments that hold a real vLLM, and patches laid over it for a run.

`payload` has the scripts that run in an engine's Python, without vpatch. It may import `checkout`
and what lies below it.
"""

from __future__ import annotations

from pathlib import Path

# What runs in an engine's Python, where vpatch is not: scripts, and modules for tests.
PAYLOAD = Path(__file__).parent / "payload"
