"""What makes Python run other code of vLLM than the sources that lie there.

All commands that ask an environment for its vLLM use these checks.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.engine import PAYLOAD
from vpatch.engine.importable import files_of_package
from vpatch.errors import VpatchError
from vpatch.util.plural import shortened
from vpatch.util.untrusted import parse_json
from vpatch.util.visible import visible_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from vpatch.engine.import_path import ImportPath
    from vpatch.engine.importable import PackageFiles

_SCRIPT = PAYLOAD / "compare_bytecode.py"
_TIMEOUT = 600.0
_CODE = (".py",)
_SHOWN = 10


class HiddenCodeError(VpatchError):
    """Python would import other code of vLLM than the sources that lie there."""

    code = "engine.hidden-code"


@dataclass(frozen=True)
class HiddenCode:
    """The files of a package, and what is wrong with some of them, by paths such as vllm/envs.py.

    `vllm` itself has what takes part in the import of many modules.
    """

    files: PackageFiles
    problems: Mapping[str, str]


def hidden_code(asked: ImportPath, package: Path) -> HiddenCode:
    """Find what hides the sources of a package from imports.

    Raises:
        OSError: a folder cannot be read.
        VpatchError: bytecode cannot be compared.
    """
    files = files_of_package(package, asked.suffixes)
    problems = dict(files.hidden)
    sources = [path for path in files.importable if path.endswith(_CODE) and path not in problems]
    problems |= _bytecode(asked, package.parent, sources)
    if asked.importers:
        problems[package.name] = "; ".join(asked.importers)
    return HiddenCode(files, problems)


def refuse_hidden(asked: ImportPath, package: Path) -> None:
    """Refuse a package whose sources are not what Python runs.

    Raises:
        HiddenCodeError: it names the files.
    """
    try:
        problems = hidden_code(asked, package).problems
    except OSError as error:
        problems = {str(error.filename or package): f"cannot be read: {error.strerror}"}
    if problems:
        lines = [f"{path}: {what}" for path, what in sorted(problems.items())]
        raise HiddenCodeError(
            f"Python imports other code than these sources:{listed(lines)}",
            where=str(package),
            hint="remove what hides them, or install vLLM again",
        )


def listed(lines: Sequence[str]) -> str:
    """Return lines for an error, with a limit."""
    shown = shortened([visible_line(line) for line in lines], _SHOWN)
    return "".join(f"\n    {line}" for line in shown)


def _bytecode(asked: ImportPath, site: Path, paths: Iterable[str]) -> dict[str, str]:
    """Return the sources whose bytecode is of other code."""
    sources = {
        str(site / path): path
        for path in paths
        if asked.pycache is not None or (site / path).with_name("__pycache__").is_dir()
    }
    if not sources:
        return {}
    # By pipes: a full disk has no place for files.
    job = json.dumps({"sources": list(sources), "pycache": asked.pycache})
    try:
        ended = subprocess.run(
            [asked.executable, "-ISB", _SCRIPT],
            input=job.encode(),
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
        rows = [parse_json(line) for line in ended.stdout.splitlines()]
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise _not_compared(str(error), site) from error
    problems = {
        sources[source]: f"{what}: {_below(path, site)}"
        for source, path, what in (row for row in rows if isinstance(row, list))
        if what
    }
    if rows[-1:] == [True]:
        return problems
    if not rows:
        raise _not_compared(ended.stderr.decode(errors="replace")[-500:], site)
    source, path, _ = rows[-1]
    return problems | {sources[source]: f"has bytecode that ends Python: {_below(path, site)}"}


def _below(path: str, site: Path) -> str:
    return path.removeprefix(f"{site}/")


def _not_compared(what: str, site: Path) -> VpatchError:
    return HiddenCodeError(
        f"the bytecode cannot be compared with its sources: {what}",
        where=str(site),
        hint="remove the folders __pycache__ of vllm, or install vLLM again",
    )
