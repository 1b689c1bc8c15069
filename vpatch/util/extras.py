"""Packages that only some commands need, and the extra of vpatch that installs them."""

from __future__ import annotations

from importlib.util import find_spec

from vpatch.errors import UnavailableError

_ENGINE = ("prometheus_client", "psutil")
_AUDIT = ("cyclonedx", "packageurl")
# The modules of each extra in pyproject.toml, by the names that an import uses.
EXTRAS = {
    "engine": _ENGINE,
    "image": ("docker", *_AUDIT),
    "bench": ("jinja2", *_ENGINE),
    "bump": ("jinja2",),
    "upstream": ("github", "pre_commit"),
    "checkpoint": ("ml_dtypes", "numpy"),
    "hub": ("huggingface_hub",),
    "audit": _AUDIT,
    "ray": ("fsspec", "ray", *_ENGINE),
}


def require(extra: str, what: str) -> None:
    """Refuse to begin something whose packages are not installed.

    A package that is installed and broken is not missing: its import raises an error of its own.

    Args:
        extra: a key of `EXTRAS`.
        what: what needs the packages, such as "`vpatch bench`", or "a run in an image".

    Raises:
        UnavailableError: a package is missing.
    """
    missing = [name for name in EXTRAS[extra] if not _is_installed(name)]
    if missing:
        raise UnavailableError(
            f"{what} needs the packages of the extra {extra!r}, "
            f"and Python does not find {', '.join(missing)}",
            hint=f"pip install 'vpatch[{extra}]'",
            code="util.missing-extra",
        )


def _is_installed(module: str) -> bool:
    spec = find_spec(module)
    # A folder without Python, such as docker/ of this repository, has a spec without a loader.
    return spec is not None and spec.origin is not None
