"""What a machine has: what a plan needs is compared with it, and a record names it."""

from __future__ import annotations

import csv
import io
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.errors import UnavailableError, VpatchError

if TYPE_CHECKING:
    from vpatch.declare.smoke import Needs

_GIB = 2**30
_QUERY = "name,compute_cap,memory.total,driver_version"
_QUERY_SECONDS = 60


class MissingError(UnavailableError):
    """The machine lacks what a plan needs."""

    code = "harness.machine-lacks"


@dataclass(frozen=True)
class Gpu:
    """`capability` is that of computing, as 9.0; `memory` is in GiB."""

    name: str
    capability: str
    memory: float
    driver: str


@dataclass(frozen=True)
class Machine:
    """`memory` is in GiB. `problem` says why nothing is known of its GPUs."""

    system: str
    processor: str
    cores: int
    memory: float
    gpus: tuple[Gpu, ...]
    problem: str | None = None


def this_machine() -> Machine:
    gpus, problem = _gpus()
    return Machine(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        processor=_processor(),
        cores=os.cpu_count() or 1,
        memory=_memory(),
        gpus=gpus,
        problem=problem,
    )


def gpu_memory() -> int | None:
    """Return the bytes that are in use on all NVIDIA GPUs; None where that cannot be asked."""
    try:
        rows = _ask("memory.used")
    except (OSError, subprocess.SubprocessError):
        return None
    known = [row[0] for row in rows if row[0].replace(".", "").isdecimal()]
    return sum(int(float(used) * 2**20) for used in known) if known else None


def missing(needs: Needs, machine: Machine, engine: str) -> list[VpatchError]:
    """Return what a plan needs and the machine or the engine's kind is not."""
    errors: list[VpatchError] = []
    if needs.engine is not None and needs.engine != engine:
        other = needs.engine not in {"cpu", "cuda"}
        hint = "PYTHON, of an environment with its plugin" if other else needs.engine
        errors.append(
            MissingError(
                f"the recipe needs a vLLM that runs on {needs.engine}; this one runs on {engine}",
                hint=f"give --engine {hint}, on a machine that has the hardware",
                code="harness.wrong-engine",
            )
        )
    fitting = [
        gpu
        for gpu in machine.gpus
        if needs.capability in (None, gpu.capability) and gpu.memory >= needs.memory_gib
    ]
    if len(fitting) < needs.gpus:
        wanted = "a GPU" if needs.gpus == 1 else f"{needs.gpus} GPUs"
        if needs.capability:
            wanted += f" of compute capability {needs.capability}"
        if needs.memory_gib:
            wanted += f" with {needs.memory_gib:g} GiB"
        here = ", ".join(f"{gpu.name} ({gpu.capability})" for gpu in machine.gpus) or "none"
        here += f" ({machine.problem})" if machine.problem else ""
        errors.append(
            MissingError(
                f"the recipe needs {wanted}; this machine has: {here}",
                hint="run it on a machine that has what the recipe needs",
            )
        )
    return errors


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    for line in info.read_text("utf-8").splitlines() if info.is_file() else []:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _gpus() -> tuple[tuple[Gpu, ...], str | None]:
    try:
        rows = _ask(_QUERY)
    except (OSError, subprocess.SubprocessError) as error:
        return (), f"nvidia-smi does not answer: {error}"
    return tuple(Gpu(n, c, _gib(m), d) for n, c, m, d in rows), None


def _gib(mebibytes: str) -> float:
    """What nvidia-smi says in MiB; it says [N/A] of a GPU that shares the machine's memory."""
    if mebibytes.replace(".", "").isdecimal():
        return round(float(mebibytes) / 1024, 1)
    return _memory()


def _memory() -> float:
    """Return this machine's memory in GiB."""
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB, 1)


def _ask(query: str) -> list[list[str]]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    answer = subprocess.run(
        [tool, f"--query-gpu={query}", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        check=True,
        timeout=_QUERY_SECONDS,
    )
    return list(csv.reader(io.StringIO(answer.stdout), skipinitialspace=True))
