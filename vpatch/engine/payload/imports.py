"""Imports modules in order and looks for operators, here and in a spawned process.

    PYTHON imports.py JOB RESULT

It runs inside an engine's Python, where vpatch is not. JOB has `modules` and `operators` (as
_C::rms_norm); RESULT gets, for `main` and `spawned`, what is missing of them, with the reason.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import sys
from pathlib import Path


def missing(job: dict[str, list[str]]) -> dict[str, str]:
    errors: dict[str, str] = {}
    for module in job["modules"]:
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - whatever a module raises is what is asked for
            errors[module] = f"{type(error).__name__}: {error}"
    for operator in job["operators"]:
        import torch

        namespace, _, name = operator.partition("::")
        try:
            getattr(getattr(torch.ops, namespace), name)
        except AttributeError as error:
            errors[operator] = str(error)
    return errors


def _answer(job: dict[str, list[str]], file: Path) -> None:
    file.write_text(json.dumps(missing(job)), encoding="utf-8")


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    result = {"main": missing(job)}
    context = multiprocessing.get_context("spawn")
    file = Path(sys.argv[2])
    process = context.Process(target=_answer, args=(job, file))
    process.start()
    process.join()
    if file.exists():
        result["spawned"] = json.loads(file.read_text(encoding="utf-8"))
    else:
        died = f"the spawned process ended with {process.exitcode}"
        result["spawned"] = dict.fromkeys([*job["modules"], *job["operators"]], died)
    file.write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
