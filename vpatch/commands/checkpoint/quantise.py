"""The process that quantises, in the Python of an engine."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from vpatch.checkpoint.quantiser import Quantiser
from vpatch.engine.asking import python_named
from vpatch.workspace.context import open_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.workspace.context import Context

RELEASE = "0.23.0"
"""The release of vLLM of an engine that vpatch makes for this."""


@contextmanager
def open_quantiser(context: Context, engine: str) -> Iterator[Quantiser]:
    """Start compressed-tensors in `cpu`, which is vpatch's own engine, or in a Python.

    Raises:
        UsageError: it is not a Python, or it has no compressed-tensors.
    """
    with ExitStack() as stack:
        if engine == "cpu":
            python = stack.enter_context(open_engine(context, engine, RELEASE)).python
        else:
            python = python_named(engine)
        yield stack.enter_context(Quantiser(python))
