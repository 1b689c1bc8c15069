"""vpatch verify-image: whether an image has what its lock says."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vpatch.cli import render
from vpatch.cli.session import Session, json_option
from vpatch.docker.engine import Docker
from vpatch.errors import ExitCode
from vpatch.image.context import digest_of_lock, version_of
from vpatch.image.mode import is_laid_over
from vpatch.image.verify import verify_image
from vpatch.lock import read_lock

if TYPE_CHECKING:
    from vpatch.image.verify import Verified


@click.command("verify-image")
@click.argument("image")
@click.option(
    "--lock",
    "lock_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="What it must have  [default: the lock that lies in it]",
)
@json_option
def command(image: str, lock_file: Path | None, *, as_json: bool) -> ExitCode:
    """Verify an image from inside, with what its build ended with, and say what differs.

    IMAGE is a tag, an id or NAME@sha256:DIGEST, pulled where it is not here. A lock of yours says
    what its files must be, whatever the image says of itself; which names are asked for, and which
    modules its base could not import, is what its build wrote there. Ends with 1 where anything
    differs.
    """
    lock = read_lock(lock_file) if lock_file else None
    with closing(Docker()) as docker:
        found = verify_image(docker, image, lock, Session().progress)
    if as_json:
        render.print_json(_as_json(image, found))
    else:
        _print(image, found)
    return ExitCode.FINDINGS if found.problems else ExitCode.CLEAN


def _print(image: str, found: Verified) -> None:
    for problem in found.problems:
        concerned = f"  ({', '.join(problem.patches)})" if problem.patches else ""
        click.echo(f"{problem.where}: {problem.what}{concerned}")
    for text in found.unknown:
        click.echo(f"not asked: {text}")
    if found.problems:
        count = render.counted(len(found.problems), "difference")
        click.echo(f"{image} is not what the lock says: {count}")
        return
    laid_over = [file for file in found.lock.files if is_laid_over(file.path)]
    files = render.counted(len(laid_over), "file")
    patches = render.counted(len(found.lock.patches), "patch")
    names = render.counted(sum(found.effects.values()), "name")
    click.echo(f"{image} is vLLM {version_of(found.lock)}, with {patches} and {files} as locked")
    click.echo(f"  {found.package}; {names} found to be the patched code")


def _as_json(image: str, found: Verified) -> dict[str, object]:
    return {
        "image": image,
        "id": found.image,
        "lock": digest_of_lock(found.lock),
        "version": version_of(found.lock),
        "package": found.package,
        "differences": [asdict(problem) for problem in found.problems],
        "effects": dict(found.effects),
        "unknown": list(found.unknown),
    }
