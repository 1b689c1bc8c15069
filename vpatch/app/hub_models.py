"""What the Hub has of a checkpoint that a run needs and this machine lacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.app.checkpoint_releases import needed_in, on_releases
from vpatch.checkpoint import report
from vpatch.checkpoint.findings import findings_of
from vpatch.checkpoint.inspection import inspect
from vpatch.checkpoint.needs import needs_of
from vpatch.checkpoint.opening import open_files
from vpatch.checkpoint.tokenizer import tokenizer_of
from vpatch.errors import UnavailableError, VpatchError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.app.context import Context
    from vpatch.declare.smoke import Model
    from vpatch.harness.models import ModelNotFetchedError


def looked_up(
    context: Context, model: Model, error: ModelNotFetchedError, vllm: str | None
) -> ModelNotFetchedError:
    """Return the error with what the headers on the Hub tell, before anybody downloads the rest.

    `vllm` is the release that is to run the checkpoint, None where it is not known.

    Raises:
        UsageError: the Hub has no such repository.
        VpatchError: this user may not read it, or its files cannot be understood.
    """
    if context.offline:
        return error.with_lines(["the Hub was not asked, because of --offline"])
    typed = f"{model.checkpoint}@{model.revision}" if model.revision else str(model.checkpoint)
    try:
        lines = list(_lines(context, typed, vllm))
    except UnavailableError as reason:
        if reason.code == "checkpoint.gated":
            raise
        return error.with_lines([f"the Hub was not asked: {reason.what}"])
    return error.with_lines(["the Hub has it:", *(f"  {line}" for line in lines)])


def _lines(context: Context, typed: str, vllm: str | None) -> Iterator[str]:
    files = open_files(Path(typed))
    found = inspect(files)
    tokenizer = tokenizer_of(files, None)
    wanted = needs_of(found, None)
    needs = [(need, needed_in(context, need)) for need in wanted]
    for line in report.inspection_lines(found, tokenizer, needs):
        yield line.text
    if vllm is not None:
        try:
            for line in report.release_lines(on_releases(context, found, wanted, vllm)):
                yield line.text
        except VpatchError as reason:
            # What the Hub tells is worth knowing without it.
            yield reason.what
    for finding in findings_of(found, tokenizer, None):
        if finding.fault:
            yield f"this prevents loading: {finding.what}"
