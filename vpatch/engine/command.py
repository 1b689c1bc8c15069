"""A command of the user's, and the Python that runs it: nothing runs to find it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.engine.asking import no_python
from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*t?")
# pip and uv write this where the path of a Python is too long for a first line, or has a blank.
_LONG_PATH = re.compile(r"'''exec' (.+) \"\$0\" \"\$@\"\s*")
_HEAD = 4096
# Options of Python whose value is the next word, where it is not in the same one.
_WITH_VALUE = {"W", "X"}
_LONG_WITH_VALUE = {"--check-hash-based-pycs"}


@dataclass(frozen=True)
class FoundCommand:
    """A program on the PATH, with its words as the user typed them.

    `python` is the Python that runs it. `is_python` says that this is known. Another program, such
    as `bash` or `srun`, has the `python` that it would find on the PATH, if there is one.
    `first` is the folder in which that Python looks before PYTHONPATH, if it is known.
    """

    words: tuple[str, ...]
    program: Path
    python: Path | None
    is_python: bool
    first: Path | None

    def __str__(self) -> str:
        return shlex.join([str(self.program), *self.words[1:]])


def find_command(words: Sequence[str], environment: Mapping[str, str]) -> FoundCommand:
    """Find a command as a shell would, and the Python behind it.

    Raises:
        UsageError: there is no such program, or its Python ignores PYTHONPATH.
    """
    program = _find_program(words[0], environment)
    if program is None:
        raise UsageError(
            f"there is no program {words[0]}",
            where="PATH" if "/" not in words[0] else words[0],
            hint="correct the command, or activate the environment that has it",
            code="engine.no-command",
        )
    head = _head(program)
    if _PYTHON.fullmatch(program.name):
        return _by_python(tuple(words), program, program, words[1:], environment)
    line = _interpreter(head, environment)
    if line is None:
        if not head.startswith(b"#!") and b"\0" not in head:
            raise UsageError(
                "it is not a program: its first line names no interpreter",
                where=str(program),
                hint="name the interpreter as well, for example: -- python SCRIPT",
                code="engine.no-command",
            )
        return FoundCommand(tuple(words), program, default_python(environment), False, None)  # noqa: FBT003
    python, options = line
    script = [*options, str(program)]
    return _by_python(tuple(words), program, python, script, environment)


def default_python(environment: Mapping[str, str]) -> Path | None:
    """Return the Python that a shell script would start."""
    return _find_program("python3", environment) or _find_program("python", environment)


def find_python(typed: str, environment: Mapping[str, str]) -> Path:
    """Find a Python by a path, or by a name on the PATH.

    Raises:
        UsageError: there is no such program.
    """
    program = _find_program(typed, environment)
    if program is None:
        raise no_python(f"{typed} is not a Python")
    return program


def is_binary(program: Path) -> bool:
    """Whether a program is compiled: a script in its place may start another Python each time."""
    return not _head(program).startswith(b"#!")


def _by_python(
    words: tuple[str, ...],
    program: Path,
    python: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str],
) -> FoundCommand:
    flags, rest = _flags(arguments)
    ignoring = sorted(flags & {"I", "E"})
    if ignoring:
        raise UsageError(
            f"its Python runs with -{ignoring[0]}, and ignores PYTHONPATH: it would not find the "
            "patched files",
            where=str(program),
            hint=f"start it without -{ignoring[0]}",
            code="engine.ignores-path",
        )
    is_safe = "P" in flags or bool(environment.get("PYTHONSAFEPATH"))
    return FoundCommand(words, program, python, True, None if is_safe else _first(rest))  # noqa: FBT003


def _flags(arguments: Sequence[str]) -> tuple[set[str], str | None]:
    """Return the single letters that a Python is given, and its script; None for none."""
    flags: set[str] = set()
    words = iter(arguments)
    for word in words:
        if word in _LONG_WITH_VALUE:
            next(words, None)
        elif word.startswith("--"):
            continue
        elif not word.startswith("-") or word == "-":
            return flags, None if word == "-" else word
        else:
            for place, letter in enumerate(word[1:], 2):
                if letter in {"c", "m"}:
                    return flags, None
                flags.add(letter)
                if letter in _WITH_VALUE:
                    if place == len(word):
                        next(words, None)
                    break
    return flags, None


def _first(script: str | None) -> Path:
    """Return where a Python looks first: beside its script, or in the current folder."""
    if script is None:
        return Path.cwd()
    path = Path(script)
    return path.absolute() if path.is_dir() else path.resolve().parent


def _interpreter(
    head: bytes, environment: Mapping[str, str]
) -> tuple[Path, tuple[str, ...]] | None:
    """Return the Python of a script's first lines, and its options; None for another program."""
    if not head.startswith(b"#!"):
        return None
    lines = head.decode(errors="replace").split("\n")
    words = lines[0][2:].strip().split(None, 1)
    long = _LONG_PATH.fullmatch(lines[1]) if len(lines) > 1 else None
    if long:
        words = shlex.split(long[1])
    elif words and os.path.basename(words[0]) == "env":  # noqa: PTH119 - as the kernel reads it
        words = [word for word in shlex.split(" ".join(words[1:])) if word not in {"-S", "-i"}]
        while words and "=" in words[0]:
            words.pop(0)
    else:
        # The kernel hands on all behind the interpreter as one word.
        words = [words[0], *words[1:]] if words else []
    if not words or not _PYTHON.fullmatch(Path(words[0]).name):
        return None
    program = _find_program(words[0], environment)
    if program is None:
        raise UsageError(
            f"its first line names {words[0]}, and there is no such program",
            hint="install it again, or activate its environment",
            code="engine.no-command",
        )
    return program, tuple(words[1:])


def _find_program(name: str, environment: Mapping[str, str]) -> Path | None:
    path = shutil.which(name, path=environment.get("PATH", os.defpath))
    # No links are followed: by its own path, a Python finds the environment that it belongs to.
    return None if path is None else Path(os.path.abspath(path))  # noqa: PTH100


def _head(program: Path) -> bytes:
    try:
        with program.open("rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b"\0"  # a program that may only be run: nobody can say what it is
