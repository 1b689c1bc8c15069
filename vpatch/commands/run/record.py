"""What `vpatch run` found out before: true as long as all that it followed from is the same."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpatch.engine.command import is_binary
from vpatch.engine.file_state import state_of_environment, state_of_folder
from vpatch.source.index import is_exact
from vpatch.source.spec import EnvironmentSpec, PypiSpec
from vpatch.util.home import expanded
from vpatch.util.own_code import code_digest
from vpatch.util.record_store import RecordStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Selection


@dataclass(frozen=True)
class RunRecord:
    """A decision about an environment.

    Attributes:
        release: of vLLM; the version of a build that is patched as it is.
        source: the digest of the release's archive, or of the environment's files.
        recipe: None without one.
        version: what the installed vLLM calls itself; it may have a local part.
        package: the folder of the installed vllm.
        states: each patch that was considered, with its state.
        patched: the files that the overlay replaces, by their paths in the package, with digests.
        overlay: its name.
        path: the folders in which the Python looks for packages.
        environment: see `state_of_environment`.
        installed: see `state_of_folder`.
    """

    release: str
    source: str
    recipe: str | None
    version: str
    package: Path
    states: tuple[tuple[str, str], ...]
    patched: Mapping[str, str]
    overlay: str
    path: tuple[str, ...]
    environment: str
    installed: str


def recall(
    context: Context, job: Selection, python: Path, environment: Mapping[str, str]
) -> RunRecord | None:
    """Return what was decided; None if it was never decided, or anything may be different now."""
    key = _key(job, python, environment)

    def known(fields: Any) -> RunRecord | None:
        record = replace(
            RunRecord(**fields),
            package=Path(fields["package"]),
            path=tuple(fields["path"]),
            states=tuple((patch, state) for patch, state in fields["states"]),
        )
        # The package itself comes last: it has thousands of files.
        is_true = (
            _is_source(context, job, python, record)
            and state_of_environment(python, record.path) == record.environment
            and state_of_folder(record.package) == record.installed
        )
        return record if is_true else None

    return None if key is None else RecordStore(context.cache.answers("runs")).get(key, known)


def remember(
    context: Context,
    job: Selection,
    python: Path,
    environment: Mapping[str, str],
    record: RunRecord,
) -> None:
    key = _key(job, python, environment)
    if key is not None:
        fields = asdict(record) | {"package": str(record.package)}
        RecordStore(context.cache.answers("runs")).put(key, fields)


def is_own(job: Selection, python: Path) -> bool:
    """Whether the patches are for the vLLM that a Python has, and not for a release."""
    return isinstance(job.spec, EnvironmentSpec) and expanded(job.spec.place) == python


def _is_source(context: Context, job: Selection, python: Path, record: RunRecord) -> bool:
    if is_own(job, python):
        return True  # the state of the package tells
    spec = PypiSpec(job.spec.tree, record.release)
    pin = context.cached_pin(spec, job.expected_digest)
    return pin is not None and pin.digest == record.source


def _key(job: Selection, python: Path, environment: Mapping[str, str]) -> str | None:
    """Name all that was asked; None where the answer may follow from more than that."""
    identities = [patch.identity for patch in job.patches]
    own = is_own(job, python)
    version = job.spec.version if isinstance(job.spec, PypiSpec) else ""
    # "latest" is another release tomorrow, and a script in a Python's place may start another one.
    is_known = own or is_exact(version) or is_series(version)
    if None in identities or not is_known or not is_binary(python):
        return None
    variables = {name: value for name, value in environment.items() if name.startswith("PYTHON")}
    places = variables.get("PYTHONPATH", "").split(os.pathsep)
    asked = {
        "code": code_digest(),
        "vllm": None if own else version,
        "expected": job.expected_digest,
        "recipe": job.recipe,
        "patches": identities,
        "chosen": job.chosen,
        "security": job.security,
        "strict": job.strict,
        "python": str(python),
        "told": variables,
        "home": environment.get("HOME"),
        "folder": None if all(map(os.path.isabs, places)) else str(Path.cwd()),
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]


def is_series(version: str) -> bool:
    """Whether a version is one such as 0.23: of that series, the installed release is meant."""
    parts = version.split(".")
    return len(parts) == 2 and all(part.isdigit() for part in parts)  # noqa: PLR2004
