"""A project's settings: vpatch.toml, or [tool.vpatch] in pyproject.toml."""

from __future__ import annotations

import difflib
import tomllib
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, ValidationError

from vpatch.declare.words import explained
from vpatch.declare.yamlfile import DeclarationError, Declared
from vpatch.util.untrusted import MEGABYTE, is_path, read_file

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


# A pyproject.toml may hold much of others; vpatch's own table has a few lines.
_LARGEST = 4 * MEGABYTE


def _path(value: str) -> str:
    if not is_path(value):
        raise ValueError(f"{value[:_SHOWN]!r} is not a path")
    return value


_SHOWN = 60
_Folder = Annotated[str, AfterValidator(_path)]


class ProjectSettings(Declared):
    """Folders with a project's own declarations, relative to the file that names them."""

    patches: list[_Folder] = Field(default_factory=list)
    recipes: list[_Folder] = Field(default_factory=list)
    targets: list[_Folder] = Field(default_factory=list)


_FILES = ("vpatch.toml", "pyproject.toml")


def settings_file(folder: Path) -> Path | None:
    """The file that has the settings of a project in `folder`; None where there is none.

    Raises:
        DeclarationError: a pyproject.toml that names vpatch is not TOML.
    """
    return next((path for path in _files(folder) if _table(path) is not None), None)


def read_settings(folder: Path) -> ProjectSettings:
    """Read the settings of the project in `folder`; without any, the defaults.

    Raises:
        DeclarationError: the file is not TOML, or has a key that is not known.
    """
    path = settings_file(folder)
    return ProjectSettings() if path is None else _validate(_table(path), path)


def _files(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in _FILES if (folder / name).is_file()]
    except OSError:
        return []  # a folder above that the user may not look into


def _table(path: Path) -> Any:
    """What a file says of vpatch; None for a pyproject.toml that says nothing."""
    try:
        data = read_file(path, _LARGEST)
        if path.name == "pyproject.toml" and b"vpatch" not in data:
            return None  # somebody else's file, which may be wrong in any way
        content: Any = tomllib.loads(data.decode())
    except OSError as error:
        raise DeclarationError(
            f"cannot be read: {error.strerror}",
            where=str(path),
            hint=f"make it a readable file of at most {_LARGEST // MEGABYTE} MB",
            code="declare.unreadable",
        ) from error
    except RecursionError as error:
        raise _not_toml("nested too deeply", path) from error
    except ValueError as error:  # also of a number with thousands of digits
        raise _not_toml(str(error), path) from error
    if path.name != "pyproject.toml":
        return content
    tools = content.get("tool")
    return tools.get("vpatch") if isinstance(tools, dict) else None


def _not_toml(reason: str, path: Path) -> DeclarationError:
    hint = "correct the file; strings are in quotes, as in patches = ['carried']"
    return DeclarationError(
        f"not TOML: {reason}", where=str(path), hint=hint, code="declare.wrong-syntax"
    )


def _validate(content: Any, path: Path) -> ProjectSettings:
    try:
        return ProjectSettings.model_validate(content)
    except ValidationError as error:
        details = error.errors()[0]
        key = ".".join(str(step) for step in details["loc"])
        known = sorted(ProjectSettings.model_fields)
        if details["type"] != "extra_forbidden":
            what = f"{key}: {explained(details)}" if key else explained(details)
            hint = "vpatch.toml has lists of folders: patches, recipes, targets"
            raise DeclarationError(what, where=str(path), hint=hint) from error
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"valid keys: {', '.join(known)}"
        raise DeclarationError(
            f"unknown key {key!r}", where=str(path), hint=hint, code="declare.unknown-key"
        ) from error
