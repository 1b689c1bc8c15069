"""vpatch test: a patch's examples and style, or its behaviour inside a real vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from vpatch.commands.proofs import behaviour, example_text, shape_text
from vpatch.commands.proofs.output import TestOutput
from vpatch.commands.proofs.recipe import RecipeRun, run_on_recipe
from vpatch.commands.proofs.releases import ReleaseRun, releases_of, run_on_releases
from vpatch.commands.proofs.style import judge_style
from vpatch.commands.proofs.usecase import ProofRequest
from vpatch.console.common_options import library_option, offline_option
from vpatch.console.completion import PATCH_ID, RECIPE_NAME, RELEASES
from vpatch.console.options import (
    cluster_options,
    folder_option,
    json_option,
    library_options,
)
from vpatch.console.output import style
from vpatch.console.renamed_options import renamed_option
from vpatch.console.result import CommandResult
from vpatch.errors import ExitCode, UnusedOptionError
from vpatch.runs.cluster_options import RunOptions
from vpatch.util.plural import holding
from vpatch.workspace.examples import run_examples
from vpatch.workspace.selection import note_left_out

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from vpatch.commands.proofs.style import Style
    from vpatch.library.patch import Patch
    from vpatch.workspace.context import Context

_ENGINE = "give --engine cpu as well, to run behaviour tests"
_ALL = "give --vllm all as well"
_BOTH = "give --record and --engine as well"


@click.command("test")
@click.argument("ids", nargs=-1, type=PATCH_ID, metavar="[PATCH]...")
@click.option(
    "--engine",
    metavar="cpu|cuda|PYTHON",
    help="Run behaviour tests in a cached cpu or cuda build, or in the Python of your own vLLM.",
)
@click.option(
    "--vllm",
    type=RELEASES,
    metavar="VERSION",
    help="Release to test in: one, several with commas, or all  "
    "[default: the one that the test declares; for style, the one that a recipe pins]",
)
@click.option(
    "--recipe",
    type=RECIPE_NAME,
    metavar="NAME",
    help="With --engine, run the tests on what this recipe makes, with all of its patches.",
)
@click.option(
    "--record",
    is_flag=True,
    help="Write the code that each patch reads to its shapes.json. With --engine, write the "
    "results of its tests, and skip those on record.",
)
@click.option(
    "--record-examples",
    is_flag=True,
    help="Write an example for each variant of the patches, or for each release of --vllm.",
)
@library_option
@renamed_option(
    "--rerun",
    "again",
    old="--again",
    is_flag=True,
    help="With --record, run known results again.",
)
@click.option("--no-style", is_flag=True, help="Do not run upstream's hooks for format and lint.")
@click.option(
    "--keep-engines",
    type=click.IntRange(min=0),
    metavar="N",
    help="With several releases, how many new engines stay in the cache  [default: 1]",
)
@folder_option(
    "--evidence-dir",
    old="--to",
    help="Write evidence of each behaviour test to this folder.",
)
@cluster_options
@offline_option
@library_options
@json_option
def command(
    ids: tuple[str, ...],
    engine: str | None,
    vllm: str | None,
    recipe: str | None,
    context: Context,
    evidence_dir: Path | None,
    keep_engines: int | None,
    on: str | None,
    *,
    record: bool,
    record_examples: bool,
    again: bool,
    no_style: bool,
    with_library: bool,
    as_json: bool,
    **cluster: Any,
) -> CommandResult | ExitCode:
    """Test patches by examples and behaviour tests.

    Without ids, these are the patches of the project, or the library's if it has none of its own.

    Each example runs twice, and the second run must change nothing. What your own patches make of
    vLLM must also pass the hooks for format and lint that the release itself has, such as ruff. The
    release is the newest one that a recipe pins for the patch, or those of --vllm.

    With --record, read all releases instead, or those of --vllm, and record the code that each
    patch reads there. vpatch status marks any other code.

    With --record-examples, write examples from releases instead: the files that the patch changes,
    before and after. Without --vllm, each variant gets the newest release that needs it. Examples
    that are there stay. Ends with 1 if one could not be written.

    With --engine, run the behaviour tests instead, in a real vLLM. Each test must fail as declared
    on the pristine tree, and pass on the patched tree.

    With --recipe as well, each test runs once, on what the recipe makes, and must pass. Patches
    that change the same function are proven together so. With --record, only tests of code that
    several patches change run.

    With several releases, or with --record, a test also runs where the patch is upstreamed: once,
    and it must pass. Each new engine is removed after use. Ends with 1 if a test contradicts the
    state of its patch. With --record, the same command goes on where it was interrupted.
    """
    others = engine or recipe or record or no_style
    where = RunOptions(engine=engine, on=on, **cluster).where()
    several = record or recipe or vllm == "all" or "," in (vllm or "")
    has_limit = keep_engines is not None
    for option, unused, why, hint in (
        ("--library", with_library and ids, "beside the ids of patches", "leave it out"),
        ("--library", with_library and recipe, "beside --recipe", "leave it out"),
        ("--recipe", recipe and not engine, "without --engine", _ENGINE),
        ("--vllm", vllm and recipe, "beside --recipe", "leave it out: the recipe pins a vLLM"),
        ("--record", record and engine and not (vllm or recipe), "here", _ALL),
        ("--vllm", vllm and no_style and not (engine or record), "with --no-style", _ENGINE),
        ("--no-style", no_style and (engine or record), "here", "leave it out"),
        ("--evidence-dir", evidence_dir and not engine, "without --engine", _ENGINE),
        ("--evidence-dir", evidence_dir and several, "here", "give one --vllm, and no --record"),
        ("--record-examples", record_examples and others, "here", "give it alone, or with --vllm"),
        ("--rerun", again and not (record and engine), "here", _BOTH),
        ("--keep-engines", has_limit and (recipe or not several), "here", "give --vllm all"),
        ("--cluster", on and not engine, "without --engine", _ENGINE),
        ("--cluster", on and several, "here", "give one --vllm, and no --record"),
    ):
        if unused:
            raise UnusedOptionError(f"{option} would have no effect {why}", hint=hint)
    if recipe and engine:
        run = run_on_recipe(context, RecipeRun(recipe, engine, ids, record, again))
        return behaviour.show(run, as_json=as_json)
    library = context.library
    chosen = library.load_named(ids or (() if with_library else library.in_project))
    note_left_out(context, library.patches.keys() - {one.id for one in chosen} if not ids else ())
    named = releases_of(context, vllm) if vllm and not engine else None
    if record_examples or (record and engine is None):
        if record_examples:
            recorded = example_text.record(context, chosen, named, as_json=as_json)
        else:
            recorded = shape_text.record(context, chosen, vllm, as_json=as_json)
        return recorded
    if engine and vllm and several:
        count = 1 if keep_engines is None else keep_engines
        asked = ReleaseRun(chosen, engine, releases_of(context, vllm), record, again, count)
        return behaviour.show(run_on_releases(context, asked, named=bool(ids)), as_json=as_json)
    if engine is not None:
        asked_for = ProofRequest(chosen, engine, vllm, evidence_dir, bool(ids))
        return behaviour.run_tests(context, asked_for, where, as_json=as_json)
    if no_style:
        return _examples(chosen, [], as_json=as_json)
    return _examples(chosen, judge_style(context, chosen, named), as_json=as_json)


def _examples(
    chosen: list[Patch], styles: Iterable[Style], *, as_json: bool
) -> CommandResult | ExitCode:
    results = [(patch.id, result) for patch in chosen for result in run_examples(patch)]
    failed = [result for _, result in results if result.failures]
    if as_json:
        judged = list(styles)
    else:
        for patch_id, result in results:
            verdict = style("fails", fg="red") if result.failures else "holds"
            click.echo(f"{verdict}  {patch_id}  {result.name}")
            for failure in result.failures:
                click.echo("       " + failure.replace("\n", "\n       "))
        judged = [_print_style(one) for one in styles]
        _print_not_judged(judged)
        click.echo(holding(len(results) - len(failed), len(results), "example"))
    refused = any(one.failed for one in judged)
    code = ExitCode.FINDINGS if failed or refused else ExitCode.CLEAN
    return CommandResult(TestOutput.of_examples(results, judged), code) if as_json else code


def _print_style(judged: Style) -> Style:
    place = f"{judged.patch.id}  upstream's style in vLLM {judged.release}"
    if judged.passed and not judged.failed:
        click.echo(f"holds  {place}: {', '.join(judged.passed)}")
    for hook in judged.failed:
        click.echo(f"{style('fails', fg='red')}  {place}: {hook.id}")
        click.echo("       " + hook.output.replace("\n", "\n       "))
    return judged


def _print_not_judged(styles: Iterable[Style]) -> None:
    """Print each reason once, with the patches and the releases that it is the reason for."""
    reasons: dict[tuple[str | None, str], list[str]] = {}
    for one in styles:
        for reason in one.not_judged:
            reasons.setdefault((one.release, reason), []).append(one.patch.id)
    for (release, reason), ids in reasons.items():
        place = f"  upstream's style in vLLM {release}" if release else ""
        click.echo(f"not judged  {', '.join(ids)}{place}: {reason}")
