"""What the workers of a cluster answer, checked: a node may have another vpatch, or lie."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, FiniteFloat, TypeAdapter

from vpatch.cluster.errors import ClusterError
from vpatch.util.untrusted import plain_path

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHOWN = 200
_STRICT = ConfigDict(strict=True)


class Begun(BaseModel):
    """Where and when a job began. `host` and `node` are as Ray names them."""

    model_config = _STRICT

    host: str
    node: str
    clock: FiniteFloat


def _separate(files: dict[str, bytes]) -> dict[str, bytes]:
    """Refuse a file that has others below it."""
    for name in files:
        above = {str(parent) for parent in PurePosixPath(name).parents}
        if above & files.keys():
            raise ValueError(f"{name!r} lies below a file")
    return files


_FILES = TypeAdapter(
    Annotated[dict[Annotated[str, AfterValidator(plain_path)], bytes], AfterValidator(_separate)],
    config=_STRICT,
)
_LETTER = TypeAdapter(tuple[str, str, Any], config=_STRICT)


def files_from(answer: Any) -> dict[str, bytes]:
    """Return the files that a job left, by paths that stay below a folder.

    Raises:
        ClusterError: the answer is something else.
    """
    try:
        return _FILES.validate_python(answer)
    except ValueError as error:
        raise not_understood("a node", error) from error


def letters_from(answer: Any) -> Iterator[tuple[str, Begun | bytes | None]]:
    """Yield the messages of jobs: the attempt, and where it began or a piece of its log.

    Raises:
        ClusterError: one is not a message.
    """
    try:
        for letter in answer:
            attempt, kind, content = _LETTER.validate_python(letter)
            if kind == "begun":
                yield attempt, Begun.model_validate(content)
            else:
                yield attempt, content if isinstance(content, bytes) else None
    except (ValueError, TypeError) as error:
        raise not_understood("a node", error) from error


def not_understood(who: str, error: Exception) -> ClusterError:
    """Return what to raise for an answer of another shape."""
    message = " ".join(str(error).split()) or type(error).__name__
    return ClusterError(
        f"what {who} answers is not understood: {message[:_SHOWN]}",
        hint="see whether all nodes are yours, and have the same Ray and Python",
        code="cluster.bad-answer",
    )
