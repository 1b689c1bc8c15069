"""vpatch verify-image: whether an image has what its lock says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vpatch.commands.build_image.output import VerifyImageOutput
from vpatch.commands.build_image.verify import ForeignImage, verify_or_compare
from vpatch.console.common_options import offline_option
from vpatch.console.options import json_option, library_options
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode
from vpatch.image.context import version_of
from vpatch.image.payload.verify import NOT_IMPORTED
from vpatch.image.verify import NOT_IMPORTABLE
from vpatch.util.plural import counted, listed, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.image.verify import Verified
    from vpatch.workspace.context import Context

_SHOWN = 20
_SHOWN_MODULES = 3


@click.command("verify-image")
@click.argument("image")
@click.option(
    "--lock",
    "lock_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Compare with this lock file  [default: the lock in the image]",
)
@library_options
@offline_option
@json_option
def command(
    context: Context, *, image: str, lock_file: Path | None, as_json: bool
) -> CommandResult | ExitCode:
    """Compare an image with its lock, or with a release.

    Lists the differences. IMAGE is a tag, an id or NAME@sha256:DIGEST. vpatch pulls it if it is not
    on this machine. First, vpatch reads the files of the patched packages from the image's layers,
    and runs nothing of the image. The patched files must be as locked, and all others must be those
    of the base. Then the image's own Python imports the patched modules. Anyone who can change that
    Python can make it report anything.

    Without --lock, vpatch uses the lock in the image. Anyone who can change the image can change
    that lock too, so give your own if you have it. Ends with 1 if anything differs.

    Of an image that vpatch did not build, it says what the vLLM in it is. It is a release, one with
    changed files, or an unknown build. Files that differ from the release are no difference if the
    installed RECORD names them as they are: they came with the wheel.
    """
    verified = verify_or_compare(context, image, lock_file)
    if isinstance(verified, ForeignImage):
        return _tell_foreign(verified, as_json=as_json)
    code = ExitCode.FINDINGS if verified.problems else ExitCode.CLEAN
    if as_json:
        return CommandResult(VerifyImageOutput.model_validate(verified), code)
    _print(image, verified)
    return code


def _tell_foreign(one: ForeignImage, *, as_json: bool) -> CommandResult | ExitCode:
    comparison = one.comparison
    code = ExitCode.CLEAN if comparison.is_as_built else ExitCode.FINDINGS
    if as_json:
        return CommandResult(VerifyImageOutput.of_foreign(one), code)
    click.echo(f"{one.name} was not built by vpatch")
    click.echo(f"  its vLLM: {comparison.summary}")
    for path in shortened(comparison.changed, _SHOWN):
        by = ", ".join(comparison.inside.explained.get(path, ()))
        recorded = ", and as RECORD names it" if path in comparison.as_recorded else ""
        by = f" (by {by})" if by else ""
        click.echo(f"  {path}: not as in the release{recorded}{by}")
    for path in shortened(comparison.missing, _SHOWN):
        click.echo(f"  {path}: is missing")
    if comparison.patches:
        click.echo(f"  patches that are in these files: {', '.join(comparison.patches)}")
    return code


def _unknown(texts: Sequence[str]) -> Iterator[str]:
    """What could not be asked: a line for all modules that have the same reason, and for names."""
    modules = [text.removesuffix(NOT_IMPORTABLE) for text in texts if text.endswith(NOT_IMPORTABLE)]
    unasked = [text for text in texts if text.endswith(NOT_IMPORTED)]
    grouped: list[str] = []
    if len(modules) > 1:
        grouped.append(NOT_IMPORTABLE)
        yield (
            f"{len(modules)} modules are not importable here, nor were they in the base: "
            f"{listed(modules, _SHOWN_MODULES)}"
        )
    if len(unasked) > 1:
        grouped.append(NOT_IMPORTED)
        yield f"{len(unasked)} names: their modules cannot be imported here; --json names each"
    yield from (text for text in texts if not text.endswith(tuple(grouped)))


def _print(image: str, verified: Verified) -> None:
    for problem in verified.problems:
        concerned = f"  ({', '.join(problem.patches)})" if problem.patches else ""
        click.echo(f"{problem.where}: {problem.what}{concerned}")
    for text in _unknown(verified.unknown):
        click.echo(f"not asked: {text}")
    if verified.problems:
        count = counted(len(verified.problems), "difference")
        click.echo(f"{image} is not what the lock says: {count}")
        return
    lock = verified.lock
    ids = {patch.id for one in (lock, *verified.trees.values()) for patch in one.patches}
    patches = counted(len(ids), "patch")
    laid_over = verified.patched
    files = counted(laid_over, "file")
    others = counted(max(0, verified.files - laid_over), "other file")
    names = counted(sum(verified.effects.values()), "name")
    beside = "".join(f" and {one.source.tree}" for one in verified.trees.values())
    place = verified.package
    if verified.trees:
        place += f" and {counted(len(verified.trees), 'other package')}"
    click.echo(f"{image} is vLLM {version_of(lock)}{beside}, with {patches} and {files} as locked")
    click.echo(f"  from outside: {files} of patches and {others} as locked, in {place}")
    unasked = sum(text.endswith(NOT_IMPORTED) for text in verified.unknown)
    beside = f"; {counted(unasked, 'name')} not asked" if unasked else ""
    click.echo(f"  its own Python says: {names} found to be the patched code{beside}")
    click.echo("  not compared: VEX and SBOM in the image; vpatch audit --image makes new ones")
    if verified.own_lock:
        click.echo("  the lock is the image's own; to compare with yours, give --lock FILE")
