"""The class of a checkpoint's tokenizer, and whether a Python's transformers has it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.checkpoint.files import read_object
from vpatch.errors import UsageError
from vpatch.util.own_environment import inherited

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.checkpoint.files import Files

_SETTINGS = "tokenizer_config.json"
# transformers itself looks for a class with and without this at its end.
_ASK = """
import sys
import transformers
name = sys.argv[1]
found = any(hasattr(transformers, n) for n in (name, name + "Fast", name.removesuffix("Fast")))
print(transformers.__version__, found)
"""
_SECONDS = 120
NEW_IN_5 = ("TokenizersBackend", "SentencePieceBackend", "PythonBackend")
"""Classes that transformers has from 5.0 on: what it saves since then names them."""


@dataclass(frozen=True)
class Tokenizer:
    """`name` is its class, None where no file names one; `own_code`: it comes with the checkpoint.

    `transformers` is the version that was asked, and `known` what it said; None where none was.
    """

    name: str | None
    own_code: bool = False
    transformers: str | None = None
    known: bool | None = None


def tokenizer_of(files: Files, python: Path | None) -> Tokenizer:
    """Read which class a tokenizer is of; ask a Python whether its transformers has that.

    Raises:
        UsageError: that Python cannot be run, or has no transformers.
    """
    settings = read_object(files, _SETTINGS) if _SETTINGS in files.names() else {}
    name = settings.get("tokenizer_class")
    classes = settings.get("auto_map")
    own = isinstance(classes, dict) and "AutoTokenizer" in classes
    if not isinstance(name, str):
        return Tokenizer(None, own)
    if python is None or own:
        return Tokenizer(name, own)
    version, known = _ask(python, name)
    return Tokenizer(name, own, version, known)


def _ask(python: Path, name: str) -> tuple[str, bool]:
    environment = {k: v for k, v in inherited().items() if k != "PYTHONPATH"}
    try:
        done = subprocess.run(
            [python.absolute(), "-c", _ASK, name],
            # Python looks for modules there first, and the current folder may be anybody's.
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
            env=environment | {"HF_HUB_OFFLINE": "1"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _cannot(python, str(error)) from error
    words = done.stdout.split()
    if done.returncode != 0 or len(words) != 2:  # noqa: PLR2004 - a version and an answer
        lines = done.stderr.strip().splitlines()
        raise _cannot(python, lines[-1] if lines else "it prints nothing")
    return words[0], words[1] == "True"


def _cannot(python: Path, why: str) -> UsageError:
    return UsageError(
        f"vpatch cannot ask its transformers: {why}",
        where=str(python),
        hint="give --python the Python that vLLM is installed for",
        code="checkpoint.wrong-engine",
    )
