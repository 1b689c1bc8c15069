"""What a project's settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, ValidationError

from vpatch.declare.errors import DeclarationError, unknown_key
from vpatch.declare.settings import settings_file, table
from vpatch.declare.yamlfile import Declared
from vpatch.util.untrusted import is_path
from vpatch.util.validation import explained

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


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


def read_settings(folder: Path) -> ProjectSettings:
    """Read the settings of the project in `folder`; without any, the defaults.

    Raises:
        DeclarationError: the file is not TOML, or has a key that is not known.
    """
    path = settings_file(folder)
    return ProjectSettings() if path is None else _validate(table(path), path)


def _validate(content: Any, path: Path) -> ProjectSettings:
    try:
        return ProjectSettings.model_validate(content)
    except ValidationError as error:
        details = error.errors()[0]
        key = ".".join(str(step) for step in details["loc"])
        if details["type"] != "extra_forbidden":
            what = f"{key}: {explained(details)}" if key else explained(details)
            hint = "vpatch.toml has lists of folders: patches, recipes, targets"
            raise DeclarationError(what, where=str(path), hint=hint) from error
        raise unknown_key(key, sorted(ProjectSettings.model_fields), str(path)) from error
