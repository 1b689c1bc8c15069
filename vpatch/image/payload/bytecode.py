"""Compile vLLM, and of other packages and Python itself what vLLM imports to serve a model.

    python3 bytecode.py [NAME==VERSION...]

It runs in the environment of an image, where vpatch is not. The releases are those of plugins whose
files a lock has. Python compiles all other modules when they are imported. The time of a source
outside of vLLM must be what it stays: the compiled file names it.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import os
import py_compile
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

_BY_HASH = py_compile.PycInvalidationMode.CHECKED_HASH
_BY_TIME = py_compile.PycInvalidationMode.TIMESTAMP
_LIST = "--list"
_SERVING = (
    "vllm.entrypoints.cli.main",
    "vllm.entrypoints.openai.api_server",
    "vllm.v1.engine.core",
    "vllm.v1.worker.cpu_worker",
    "vllm.model_executor.model_loader",
    "vllm.model_executor.models.llama",
    "torch._inductor.compile_fx",
)


def imported() -> list[str]:
    """Import, and return the files of all modules that are there then."""
    for module in _SERVING:
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - another release has other modules
            sys.stderr.write(f"{module} is not imported: {error}\n")
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return [file for file in files if file and file.endswith(".py")]


def files_of(releases: list[str]) -> set[str]:
    """Return the files of distributions, which are named as NAME==VERSION each."""
    files = set()
    for release in releases:
        distribution = importlib.metadata.distribution(release.partition("==")[0])
        files |= {str(distribution.locate_file(file)) for file in distribution.files or ()}
    return files


def is_without_bytecode(file: str) -> bool:
    return Path(file).is_absolute() and not Path(importlib.util.cache_from_source(file)).exists()


def main(releases: list[str]) -> None:
    package = importlib.util.find_spec("vllm")
    place = (package.submodule_search_locations or ["/nowhere"])[0] if package else "/nowhere"
    # In a process of its own: what a process has imported changes the bytes that it compiles to.
    with tempfile.TemporaryDirectory() as workdir:
        list_file = Path(workdir, "files")
        environment = os.environ | {"HOME": workdir, "TMPDIR": workdir, "XDG_CACHE_HOME": workdir}
        command = [sys.executable, "-B", __file__, _LIST, str(list_file)]
        subprocess.run(command, env=environment, check=True)
        files = set(json.loads(list_file.read_text(encoding="utf-8")))
    site = sysconfig.get_path("purelib")
    wanted = {file for file in files if file.startswith(f"{site}/")}
    # Some images have a Python without its bytecode. What is compiled already stays.
    wanted |= {file for file in files - wanted if is_without_bytecode(file)}
    wanted |= {str(file) for file in Path(place).rglob("*.py")}
    locked = files_of(releases)
    for file in sorted(wanted):
        # The lock has the digests of the files of vLLM and of patched plugins: they must not
        # depend on SOURCE_DATE_EPOCH. To check a source by its hash takes longer at each start than
        # by its time.
        is_locked = file.startswith(f"{place}/") or file in locked
        # A template, or a file for another Python, does not compile: nobody imports it.
        py_compile.compile(file, quiet=2, invalidation_mode=_BY_HASH if is_locked else _BY_TIME)


if __name__ == "__main__":
    if sys.argv[1:2] == [_LIST]:
        Path(sys.argv[2]).write_text(json.dumps(imported()), encoding="utf-8")
    else:
        main(sys.argv[1:])
