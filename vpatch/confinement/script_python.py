"""The Python that a script gets in the sandbox, and the stub of vLLM that is made by it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from vpatch.errors import UnavailableError
from vpatch.util.child_environment import environment

_SECONDS = 60
# -I keeps the environment and the current folder out, and so does -S packages.
_ASKED = """
import json, sys
prefixes = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
print(json.dumps({"program": sys.executable, "prefixes": sorted(set(prefixes))}))
"""
_STUB = """
import importlib.util, py_compile, sys
source, module, seen_as = sys.argv[1:]
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
cache = importlib.util.cache_from_source(module)
py_compile.compile(source, cache, seen_as, doraise=True, invalidation_mode=mode)
"""


@dataclass(frozen=True)
class ScriptPython:
    """A Python: its program, and the folders that it is installed in."""

    program: str
    prefixes: tuple[Path, ...]


def script_python(name: str = "python3") -> ScriptPython:
    """Ask a Python what it is; without a `python3` on the path, vpatch's own.

    Raises:
        UnavailableError: it does not run.
    """
    return _python_of(shutil.which(name) or sys.executable)


@cache
def _python_of(program: str) -> ScriptPython:
    answer = json.loads(_run(program, "-I", "-c", _ASKED))
    return ScriptPython(answer["program"], tuple(Path(prefix) for prefix in answer["prefixes"]))


def write_stub(python: ScriptPython, root: Path, seen_at: Path, version: str) -> None:
    """Let `import vllm` in that Python give a stub: only the `__file__` of the copy, and a version.

    The stub is bytecode beside `vllm/__init__.py`, which the Python takes in its place without a
    look at it. So the file is as it was, and importers and finders name one and the same file.

    Args:
        python: what imports it.
        root: the folder of the copy.
        seen_at: where the script sees the copy.
        version: the release.
    """
    module = root / "vllm" / "__init__.py"
    source = root.parent / "stub.py"
    source.write_text(f"__version__ = {version!r}\n", encoding="utf-8")
    seen_as = seen_at / "vllm" / "__init__.py"
    _run(python.program, "-I", "-c", _STUB, str(source), str(module), str(seen_as))


def _run(program: str, *words: str) -> str:
    try:
        done = subprocess.run(
            [program, *words],
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=environment(),
            text=True,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        message = getattr(error, "stderr", None) or str(error)
        raise UnavailableError(
            f"the Python for the script does not run: {str(message).strip()[-300:]}",
            where=program,
            hint="put a python3 that runs on the PATH",
            code="importing.no-sandbox",
        ) from error
    return done.stdout
