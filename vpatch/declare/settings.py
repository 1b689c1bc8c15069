"""A project's settings: vpatch.toml, or [tool.vpatch] in pyproject.toml, in the current folder."""

from __future__ import annotations

import difflib
import tomllib
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from vpatch.declare.yamlfile import DeclarationError, Declared

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


class Settings(Declared):
    """Folders with a project's own declarations, relative to the file that names them."""

    patches: list[str] = Field(default_factory=list)
    recipes: list[str] = Field(default_factory=list)
    targets: list[str] = Field(default_factory=list)


def read_settings(folder: Path) -> Settings:
    """Read the settings of the project in `folder`; without any, the defaults.

    Raises:
        DeclarationError: the file is not TOML, or has a key that is not known.
    """
    for name, table in (("vpatch.toml", ()), ("pyproject.toml", ("tool", "vpatch"))):
        path = folder / name
        if not path.is_file():
            continue
        try:
            content: Any = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DeclarationError(f"not TOML: {error}", where=str(path)) from error
        for key in table:
            content = content.get(key, {}) if isinstance(content, dict) else {}
        if content or not table:
            return _validate(content, path)
    return Settings()


def _validate(content: Any, path: Path) -> Settings:
    try:
        return Settings.model_validate(content)
    except ValidationError as error:
        details = error.errors()[0]
        key = ".".join(str(step) for step in details["loc"])
        known = sorted(Settings.model_fields)
        if details["type"] != "extra_forbidden":
            raise DeclarationError(f"{key}: {details['msg']}", where=str(path)) from error
        near = difflib.get_close_matches(key, known, n=1)
        todo = f"did you mean {near[0]!r}?" if near else f"valid keys: {', '.join(known)}"
        raise DeclarationError(f"unknown key {key!r}", where=str(path), todo=todo) from error
