"""vpatch bench: servers under load, with and without speculative decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from vpatch.commands.bench.compare_command import compare as compare_command
from vpatch.commands.bench.output import BenchOutput
from vpatch.commands.bench.report.markdown import sides_against_a, throughput_table
from vpatch.commands.bench.summary import rows_of
from vpatch.commands.bench.usecase import BenchOptions, BenchResult, bench
from vpatch.console.completion import RECIPE_NAME
from vpatch.console.options import (
    cluster_options,
    engine_option,
    folder_option,
    json_option,
    library_options,
    source_options,
    written_in_project,
)
from vpatch.console.output import Group, style
from vpatch.console.result import CommandResult, InterruptedRunError
from vpatch.errors import ExitCode, UnusedOptionError, VpatchError
from vpatch.harness.measured import Fault
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.commands.bench.measure import LoadRun
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Request


@click.group("bench", invoke_without_command=True, cls=Group)
@source_options
@library_options
@engine_option
@click.option(
    "--image", metavar="TAG", help="Serve in containers of this image, built by vpatch build-image."
)
@click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="URL",
    help="URL of a running server; repeat it for each k.",
)
@click.option("--before", is_flag=True, help="Measure the pristine release too, as the first side.")
@click.option(
    "--compare",
    metavar="A,B",
    help="Two sides to compare: VERSION or folder (as in --vllm), pristine:VERSION, "
    "image:TAG, or a server's URL.",
)
@click.option(
    "--plan", type=RECIPE_NAME, metavar="RECIPE", help="Use the benchmark plan of another recipe."
)
@click.option("--model", metavar="PATH|ID", help="Serve this checkpoint instead of the plan's.")
@click.option(
    "--k", metavar="K,...", help="Use these numbers of speculative tokens, such as 0,2 or 0..3."
)
@click.option(
    "--concurrency",
    metavar="C,...",
    help="Use these numbers of concurrent requests, such as 1,4,8,16.",
)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="IN/OUT",
    help="Use random prompts with these numbers of input and output tokens, "
    "such as 1024/128; repeatable.",
)
@click.option(
    "--prompts", type=click.IntRange(1), help="Number of prompts for each concurrent request."
)
@click.option(
    "--repeats",
    type=click.IntRange(1),
    help="Number of repeats. Differences are judged only from 3 on.",
)
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Port of the test server  [default: a free one]"
)
@cluster_options
@click.option("--name", help="Name of the record  [default: RECIPE-ENGINE-TIME]")
@folder_option(
    "--output-dir",
    old="--to",
    default=written_in_project("bench", "--output-dir"),
    help="Folder for the record  [default: bench in the project]",
)
@json_option
@click.pass_context
def command(
    click_context: click.Context,
    /,
    request: Request,
    context: Context,
    output_dir: Path,
    *,
    as_json: bool,
    **options: Any,
) -> CommandResult | ExitCode | None:
    """Measure a patched vLLM under load.

    The load is that of vLLM's own `vllm bench serve`. The recipe's plan says what to measure: k
    (the number of speculative tokens), concurrency, and the shapes of prompts. Without such a plan,
    a standard plan runs: k=0 and k=3 with a tiny model. Repeats run in alternating order. vpatch
    starts and stops the servers, or uses running ones. The record has a page with plots, tables in
    Markdown and CSV, and vLLM's own results.

    Ends with 1 if something could not be measured.
    """
    if click_context.invoked_subcommand is not None:
        _refuse_options_before(click_context)
        return None
    result = bench(
        context,
        request,
        BenchOptions(**options),
        output_dir,
        on_result=None if as_json else _print,
    )
    failure: VpatchError | None
    if isinstance(result.failure, KeyboardInterrupt):
        failure = InterruptedRunError("interrupted; what was measured is kept")
    else:
        failure = result.failure
    code = ExitCode.FINDINGS if result.faults else ExitCode.CLEAN
    if as_json:
        output = BenchOutput(folder=result.folder, record=result.record)
        if failure is not None:
            return CommandResult(output, failure.exit_code, (failure,))
        return CommandResult(output, code)
    _print_end(result)
    if failure is not None:
        raise failure
    return code


command.add_command(compare_command)


def _refuse_options_before(context: click.Context) -> None:
    """Refuse what would be ignored: options of a run before the name of another command."""
    options = [
        option.opts[0]
        for option in context.command.params
        if context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
    ]
    if options:
        raise UnusedOptionError(
            f"{', '.join(options)} would have no effect before {context.invoked_subcommand}",
            hint=f"write options after it; see vpatch bench {context.invoked_subcommand} --help",
        )


def _print(side: str, point: LoadRun) -> None:
    name = " ".join(filter(None, (side, point.cell.name, point.load.name)))
    repeat = f" #{point.repeat + 1}"
    click.echo(f"{name + repeat:<44}  {_result(point)}")


def _result(point: LoadRun) -> str:
    result = point.result
    if isinstance(result, Fault):
        return style(f"{result}; see {point.log.name}", fg="red")
    ttft, tpot = result.latencies["ttft"], result.latencies["tpot"]
    words = [f"{result.output_tokens_per_second:8.1f} tok/s", f"TTFT {ttft.mean:.1f} ms"]
    words.append(f"TPOT {tpot.mean:.2f} ms")
    if result.counters.rate is not None:
        words.append(f"acceptance {result.counters.rate:.3f}")
    return ", ".join(words)


def _print_end(result: BenchResult) -> None:
    record = result.record
    names = [side.name for side in record.sides]
    rows = rows_of(record)
    click.echo()
    for line in throughput_table(rows, names):
        click.echo(line)
    for line in sides_against_a(rows, names):
        click.echo(line)
    points = len(record.points)
    planned = counted(record.planned, "run")
    click.echo(f"\n{points - len(result.faults)} of {planned} measured; record: {result.folder}")
