"""Whether the modules and operators that a recipe names are there, in main and spawned processes.

A platform's plugin declares what its build lacks while it is imported: in the wrong order, or in
the main process alone, an engine's workers die of it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vpatch.commands.smoke.checks import Check
from vpatch.engine import PAYLOAD
from vpatch.harness.faults import fault
from vpatch.harness.sandbox import run_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vpatch.declare.smoke import Imports
    from vpatch.engine.process import Ended
    from vpatch.harness.sandbox import Sandbox

_SCRIPT = PAYLOAD / "imports.py"
_SECONDS = 600.0
_ENVIRONMENT_SECONDS = 300.0


def run_imports(
    imports: Imports, sandbox: Sandbox, environment: Mapping[str, str], workdir: Path, log: Path
) -> list[Check]:
    """Look for them in a process of the engine's Python; nothing where the recipe names none."""
    if not imports.modules and not imports.operators:
        return []
    job, result = workdir / "job.json", workdir / "result.json"
    job.write_text(imports.model_dump_json(), encoding="utf-8")
    command = [sandbox.python, _SCRIPT, job, result]
    ended = run_in(
        sandbox, command, workdir=workdir, log=log, extra_env=environment, timeout=_SECONDS
    )
    if ended.code != 0:
        how = "did not end" if ended.code is None else f"ended with {ended.code}"
        return [Check("imports", "fail", reason=str(fault("crashed", f"the process {how}", log)))]
    return list(_checks(imports, json.loads(result.read_text(encoding="utf-8"))))


def collect_environment(sandbox: Sandbox, workdir: Path, report: Path) -> Ended:
    """Let vLLM describe the environment that it has."""
    command: list[str | Path] = [sandbox.python, "-m", "vllm.collect_env"]
    return run_in(sandbox, command, workdir=workdir, log=report, timeout=_ENVIRONMENT_SECONDS)


def _checks(imports: Imports, answers: Mapping[str, Mapping[str, str]]) -> Iterator[Check]:
    for where, missing in answers.items():
        for what, names in (("modules", imports.modules), ("operators", imports.operators)):
            if not names:
                continue
            bad = [f"{name}: {missing[name]}" for name in names if name in missing]
            figure = f"{len(names) - len(bad)} of {len(names)}"
            name = f"{what}, {where} process"
            yield Check(name, "fail" if bad else "pass", figure, "; ".join(bad))
