"""The envelope of every document, and the base class of everything in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

from pydantic import AliasChoices, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field

from vpatch.errors import ManyErrors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import JsonValue

    from vpatch.errors import VpatchError


class OutputModel(BaseModel):
    """A part of a document. Every key is always there; its value is null if there is none.

    It is made of an object with the same attributes; `read_from` names those that differ.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        from_attributes=True,
        populate_by_name=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
    )


Sorted = Annotated[list[str], BeforeValidator(sorted)]


def read_from(*paths: str) -> Any:
    """Declare the attribute that a key is read from, such as `plan.pin.version`.

    Of several, it is the first one that is there.
    """
    return Field(validation_alias=AliasChoices(*(AliasPath(*path.split(".")) for path in paths)))


Result = TypeVar("Result", bound=OutputModel)


class ErrorOutput(OutputModel):
    """Why a command did not end clean."""

    code: str
    """The stable name of the error, `area.what-happened`. Compare this, not the text."""
    what: str
    """What went wrong: a sentence for people."""
    where: str | None
    """The file, line, package or address; null if there is no single one."""
    hint: str | None
    """What to do next: a sentence for people."""
    exit_code: int
    """The exit code of this error. Only 4 (the environment) is worth a retry."""


class Envelope(OutputModel, Generic[Result]):
    """The one document that a command with `--json` prints."""

    schema_version: Literal[1] = 1
    """A new number means that a key was removed, or means something else. Keys may be added."""
    command: str
    """The name of the command, such as `status` or `evidence list`."""
    exit_code: int
    """How the command ends: 0 clean, 1 findings, 2 usage, 3 fault, 4 environment."""
    result: Result | None
    """What the command found or did; null if an error stopped it."""
    errors: list[ErrorOutput]
    """What stopped the command, or a part of it; empty if nothing did."""


def errors_of(errors: Iterable[VpatchError]) -> list[ErrorOutput]:
    """Return errors as a document has them, each of several by itself."""
    outputs: list[ErrorOutput] = []
    for error in errors:
        if isinstance(error, ManyErrors):
            outputs += errors_of(error.errors)
        else:
            outputs.append(ErrorOutput.model_validate(error))
    return outputs


def document(
    command: str, exit_code: int, result: OutputModel | None, errors: Iterable[VpatchError]
) -> dict[str, JsonValue]:
    """Return the document of a command that has ended, ready for `json.dumps`."""
    envelope = Envelope[OutputModel](
        command=command, exit_code=exit_code, result=result, errors=errors_of(errors)
    )
    # `result` is declared as an `OutputModel`, and is dumped by its own class.
    return envelope.model_dump(mode="json", serialize_as_any=True)
