"""Where an environment has its packages: it may take a Python to tell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.source.resolve import folder_named
from vpatch.util.home import expanded

if TYPE_CHECKING:
    from vpatch.source.spec import EnvironmentSpec


def site_of(spec: EnvironmentSpec) -> Path:
    """Return the folder of packages that an environment imports a tree from.

    Nothing runs for a folder. A Python is asked for its path; nothing of the tree runs.

    Raises:
        UsageError: it is neither a folder nor a Python, or the tree is not in it.
        HiddenCodeError: Python would import other code of vLLM than the sources that lie there.
    """
    if expanded(spec.place).is_dir():
        return folder_named(spec)
    # Few sources are environments.
    from vpatch.engine.asking import python_named  # noqa: PLC0415
    from vpatch.engine.import_path import ask_import_path  # noqa: PLC0415
    from vpatch.engine.installed import find_installed  # noqa: PLC0415

    place = str(expanded(spec.place))
    if spec.tree == "vllm":
        installed = find_installed(place)
        if installed.package.parent.resolve() == installed.site.resolve():
            return installed.site
    package = spec.tree.replace("-", "_")
    for entry in ask_import_path(python_named(place), place).path:
        if (Path(entry) / package / "__init__.py").is_file():
            return Path(entry)
    raise UsageError(
        f"it has no {spec.tree}",
        where=spec.place,
        hint=f"install {spec.tree} in this Python, or name another",
        code="source.no-environment",
    )
