"""A record that vpatch wrote into a checkout, read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from vpatch.util.untrusted import LARGEST_BESIDE, read_file
from vpatch.util.validation import first_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vpatch.errors import VpatchError

_Record = TypeVar("_Record", bound=BaseModel)


def read_record_file(
    file: Path, model: type[_Record], damaged: Callable[[str], VpatchError]
) -> _Record | None:
    """Read a record; None where there is no such file.

    Args:
        file: where it is.
        model: what it is.
        damaged: the error for one that is damaged, by the reason.

    Raises:
        VpatchError: it cannot be read, or it is damaged.
    """
    try:
        return model.model_validate_json(read_file(file, LARGEST_BESIDE))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValidationError) as error:
        reason = error.strerror if isinstance(error, OSError) else first_of(error)
        raise damaged(str(reason)) from error
