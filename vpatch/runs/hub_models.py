"""What the Hub has of a checkpoint that a run needs and this machine lacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.checkpoint import report
from vpatch.checkpoint.findings import findings_of
from vpatch.checkpoint.inspection import inspect
from vpatch.checkpoint.needs import needs_of
from vpatch.checkpoint.opening import open_files
from vpatch.checkpoint.tokenizer import tokenizer_of
from vpatch.errors import VpatchError
from vpatch.runs.checkpoint_releases import needed_in, on_releases

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vpatch.declare.smoke import Model
    from vpatch.harness.models import ModelNotFetchedError
    from vpatch.workspace.context import Context

# Without these, nobody can download the checkpoint either.
_FINAL = {"checkpoint.gated", "checkpoint.no-such-repository"}


def looked_up(
    context: Context, model: Model, error: ModelNotFetchedError, releases: Iterable[str]
) -> VpatchError:
    """Return the error with what the headers on the Hub tell, before anybody downloads the rest.

    `releases` are those of vLLM that are to run the checkpoint, as far as they are known. If the
    Hub has no such repository, or this user may not read it, that is the error.
    """
    if context.offline:
        return error.with_lines(["the Hub was not asked, because of --offline"])
    typed = f"{model.checkpoint}@{model.revision}" if model.revision else str(model.checkpoint)
    task = context.progress.start(f"Asking the Hub for {typed}")
    try:
        lines = list(_lines(context, typed, releases))
    except VpatchError as reason:
        if reason.code in _FINAL:
            return reason
        hint = f" ({reason.hint})" if reason.hint else ""
        return error.with_lines([f"the Hub tells no more: {reason.what}{hint}"])
    finally:
        task.done()
    return error.with_lines(["the Hub has it:", *(f"  {line}" for line in lines)])


def _lines(context: Context, typed: str, releases: Iterable[str]) -> Iterator[str]:
    files = open_files(Path(typed))
    inspection = inspect(files)
    tokenizer = tokenizer_of(files, None)
    wanted = needs_of(inspection, None)
    needs = [(need, needed_in(context, need)) for need in wanted]
    for line in report.inspection_lines(inspection, tokenizer, needs):
        yield line.text
    try:
        rows = [row for one in releases for row in on_releases(context, inspection, wanted, one)]
        for line in report.release_lines(rows) if rows else ():
            yield line.text
    except VpatchError as reason:
        # What the Hub tells is worth knowing without it.
        yield reason.what
    for finding in findings_of(inspection, tokenizer, None):
        if finding.fault:
            yield f"this prevents loading: {finding.what}"
