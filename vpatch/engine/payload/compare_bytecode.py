"""Find bytecode that Python would take, and whose code is not what its source compiles to.

    PYTHON -ISB compare_bytecode.py < JOB > RESULT

It runs in the user's Python, where vpatch is not; nothing of the environment runs. JOB is a JSON
object: `sources`, a list of paths, and `pycache`, a folder of bytecode (`sys.pycache_prefix`) or
null. Both that folder and those beside the sources are looked at, for each level of optimisation.
RESULT gets a line of JSON for each source with such bytecode: the path of the source, that of the
bytecode, and what is wrong in words. `null` in the place of words says what is looked at next:
bytecode can end a Python. The last line is `true`.
"""

from __future__ import annotations

import glob
import importlib.util
import json
import marshal
import os
import stat
import sys
import warnings

HEADER = 16
MAGIC = importlib.util.MAGIC_NUMBER
UNCHECKED, HASHED = 1, 3
# Of a source or its bytecode; the largest of vLLM have 2 MB.
LARGEST = 64_000_000
MASK = 0xFFFFFFFF


def read(path: str) -> bytes | None:
    """Return a file; None if it is not a regular one, or is too large."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            return None
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            return file.read(LARGEST)
    except OSError:
        return None


def bytecode_of(source: str, pycache: str | None) -> list[tuple[str, int]]:
    """Return the files of bytecode that this Python could take, with the level of each."""
    files = []
    for prefix in dict.fromkeys([None, pycache]):
        sys.pycache_prefix = prefix
        plain = importlib.util.cache_from_source(source, optimization="")[: -len(".pyc")]
        for path in sorted(glob.glob(f"{glob.escape(plain)}*.pyc")):
            rest = path[len(plain) : -len(".pyc")]
            level = rest[len(".opt-") :] if rest.startswith(".opt-") else ("0" if not rest else "")
            if level.isdecimal():
                # No level is above 2, and Python writes the one that it was given.
                files.append((path, min(int(level[:4]), 2)))
    return files


def is_taken(compiled: bytes, source: str, text: bytes) -> bool:
    """Whether Python takes bytecode for a source, and does not compile it anew."""
    if compiled[:4] != MAGIC or len(compiled) < HEADER:
        return False
    flags = int.from_bytes(compiled[4:8], "little")
    if flags == 0:
        status = os.stat(source)
        mtime, size = int(status.st_mtime) & MASK, status.st_size & MASK
        return compiled[8:16] == mtime.to_bytes(4, "little") + size.to_bytes(4, "little")
    if flags == HASHED:
        return compiled[8:16] == importlib.util.source_hash(text)
    return flags == UNCHECKED


def problem(compiled: bytes, source: str, text: bytes, level: int) -> str | None:
    try:
        wanted = compile(text, source, "exec", dont_inherit=True, optimize=level)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "cannot be compiled, and has bytecode"
    try:
        code = marshal.loads(compiled[HEADER:])  # noqa: S302 - it does not run
    except Exception:  # noqa: BLE001 - Python raises it at an import too
        return "has damaged bytecode"
    return None if code == wanted else "has bytecode that hides it"


def say(*row: object) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def main() -> None:
    warnings.simplefilter("ignore")
    job = json.load(sys.stdin)
    for source in job["sources"]:
        for path, level in bytecode_of(source, job["pycache"]):
            say(source, path, None)
            compiled, text = read(path), read(source)
            if compiled is None or text is None:
                say(source, path, "has unreadable bytecode")
            elif is_taken(compiled, source, text):
                what = problem(compiled, source, text, level)
                if what:
                    say(source, path, what)
    sys.stdout.write("true\n")


if __name__ == "__main__":
    main()
