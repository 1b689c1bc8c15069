"""A real vLLM: the environments that hold one, and patches laid over it for a run."""

from __future__ import annotations

from pathlib import Path

# What runs in an engine's Python, where vpatch is not: scripts, and modules for tests.
INSIDE = Path(__file__).parent / "inside"
