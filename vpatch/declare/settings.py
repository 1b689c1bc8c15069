"""Where a project has its settings: vpatch.toml, or [tool.vpatch] in pyproject.toml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.declare.errors import DeclarationError, unreadable
from vpatch.util.untrusted import MEGABYTE, read_file

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


# A pyproject.toml may hold much of others; vpatch's own table has a few lines.
_LARGEST = 4 * MEGABYTE


_FILES = ("vpatch.toml", "pyproject.toml")


def settings_file(folder: Path) -> Path | None:
    """The file that has the settings of a project in `folder`; None where there is none.

    Raises:
        DeclarationError: a pyproject.toml that names vpatch is not TOML.
    """
    return next((path for path in _files(folder) if table(path) is not None), None)


def _files(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in _FILES if (folder / name).is_file()]
    except OSError:
        return []  # a folder above that the user may not look into


def table(path: Path) -> Any:
    """What a file says of vpatch; None for a pyproject.toml that says nothing."""
    try:
        data = read_file(path, _LARGEST)
        if path.name == "pyproject.toml" and b"vpatch" not in data:
            return None  # somebody else's file, which may be wrong in any way
        # Most projects have no such file.
        import tomllib  # noqa: PLC0415

        content: Any = tomllib.loads(data.decode())
    except OSError as error:
        raise unreadable(path, error, f"{_LARGEST // MEGABYTE} MB") from error
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
