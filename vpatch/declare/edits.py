"""What people write for one edit: a verb of the vocabulary, where it applies, how often."""

from __future__ import annotations

import difflib
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from vpatch.declare.yamlfile import TAG, Declared, valid_keys
from vpatch.util.validation import wrong_kind

Text = Annotated[str, Field(min_length=1)]
# Up to a year: the system's clocks do not take every number that YAML has.
Seconds = Annotated[float, Field(gt=0, le=366 * 86400)]
Texts = Annotated[
    tuple[Text, ...],
    Field(min_length=1),
    BeforeValidator(
        lambda v: (v,) if isinstance(v, str) else tuple(v) if isinstance(v, list) else v,
        json_schema_input_type=Text | Annotated[tuple[Text, ...], Field(min_length=1)],
    ),
]
Where = Annotated[
    dict[Annotated[str, Field(pattern=r"^\$[A-Za-z_]\w*$")], Texts],
    Field(description="what a metavariable may stand for"),
]


# The end of a file, as `at-end-of` names it.
MODULE = "module"


class Expect(Declared):
    """How many places an edit must find, those that are done already included."""

    count: int | None = Field(None, ge=1, description="exactly so many; 1 unless told otherwise")
    at_least: int | None = Field(None, ge=1)
    per: Literal["tree", "file"] = Field("tree", description="file: in every file that has any")
    for_each: str | None = Field(
        None, description="a metavariable of `where`: count each of its values by itself"
    )

    @model_validator(mode="after")
    def _one_number(self) -> Expect:
        if self.count is not None and self.at_least is not None:
            raise ValueError("give count or at-least, not both")
        return self


def _as_expect(value: Any) -> Any:
    if isinstance(value, int):
        return {"count": value}
    if not isinstance(value, (dict, Expect)):
        raise ValueError(wrong_kind(["a whole number, or a mapping such as {at-least: 1}"], value))  # noqa: TRY004 - pydantic takes no TypeError
    return value


class _Edit(Declared):
    expect: Annotated[
        Expect,
        BeforeValidator(
            _as_expect,
            json_schema_input_type=Expect | Annotated[int, Field(ge=1)],
        ),
    ] = Expect()

    @model_validator(mode="after")
    def _known_variable(self) -> _Edit:
        each, where = self.expect.for_each, getattr(self, "where", {})
        if each is not None and each not in where:
            known = ", ".join(where) or "none"
            raise ValueError(f"for-each {each!r} is not a metavariable of where ({known})")
        return self


class _PythonEdit(_Edit):
    files: Texts | None = Field(
        None, description="globs over paths in the tree, * crosses folders; default: the package"
    )


class PlacedEdit(_PythonEdit):
    """An edit with `within` and `where`."""

    within: str | None = Field(
        None, description="glob over qualified names, as Class.method or *.__init__"
    )
    where: Where = Field(default_factory=dict)


class Snippet(Declared):
    """Code in a Python file beside the patch: all of it, or one definition."""

    from_: str
    name: str | None = None


Code = Text | Snippet


class AddKeywordEdit(PlacedEdit):
    """Add keyword arguments to a call, or parameters with a default to a def."""

    find: Text
    add_keyword: dict[str, str] = Field(min_length=1)
    any_value: bool | Texts = Field(
        default=False,
        description="whether a keyword may be there with another value, or patterns of such values",
    )


class ChangeEdit(PlacedEdit):
    """Change code as a diff with metavariables and gaps says."""

    change: Text = Field(description="lines that begin with `- `, `+ ` or two spaces")
    with_comments: bool = Field(
        default=False,
        description="whether the comments in, behind and right above lines with `- ` go too",
    )


class RewriteEdit(PlacedEdit):
    """Rewrite an expression, a statement, or statements that follow each other."""

    find: Text
    rewrite: Text


class DeleteEdit(PlacedEdit):
    """Delete a statement, or statements that follow each other."""

    delete: Text = Field(description="a pattern of the statements")
    with_comments: bool = Field(
        default=False, description="whether the comments in, behind and right above them go too"
    )


class InsertEdit(PlacedEdit):
    """Insert statements, functions or classes."""

    insert: Code
    before: Text | None = None
    after: Text | None = None
    at_start_of: Text | None = None
    at_end_of: Text | None = None

    @model_validator(mode="after")
    def _one_anchor(self) -> InsertEdit:
        if sum(a is not None for a in self.anchors.values()) != 1:
            raise ValueError("give exactly one of before, after, at-start-of, at-end-of")
        if self.is_at_end_of_module and (self.files is None or self.within is not None):
            raise ValueError(f"at-end-of: {MODULE} needs files, and takes no within")
        return self

    @property
    def is_at_end_of_module(self) -> bool:
        return self.at_end_of == MODULE

    @property
    def anchors(self) -> dict[Literal["before", "after", "start", "end"], str | None]:
        return {
            "before": self.before,
            "after": self.after,
            "start": self.at_start_of,
            "end": self.at_end_of,
        }


class AddImportEdit(_PythonEdit):
    """Import a name in the modules that hold a piece of code."""

    add_import: Text
    beside: Text


class ReplaceBodyEdit(PlacedEdit):
    """Replace a function's body, if it is the one that the patch was written against."""

    find: Text
    replace_body: Code
    having: Texts


class SetValueEdit(_PythonEdit):
    """Set a variable of a module or a class."""

    set_value: Text
    of: str = Field(
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$", description="its qualified name, as Class.NAME"
    )
    was: Text


class CodemodEdit(PlacedEdit):
    """Run the libcst codemod of a Python file beside the patch; see docs/how-to/codemods.md."""

    codemod: Text
    contains: Texts = Field(description="a file is looked at when it contains all of these")


class Replacement(Declared):
    find: Text
    replace: Text = Field(
        description="not empty, as nothing would tell that it is done: keep some text around it"
    )


class TextEdit(_Edit):
    """Replace text in files that are not Python."""

    text: Replacement
    files: Texts


class DiffEdit(Declared):
    """Apply a unified diff, each hunk at the one place where all its context is."""

    diff: Text


class AddFileEdit(Declared):
    """Create a file."""

    add_file: Text = Field(description="its path in the tree")
    from_: Text = Field(description="the file beside the patch that holds its content")


VERBS: dict[str, type[Declared]] = {
    "change": ChangeEdit,
    "add-keyword": AddKeywordEdit,
    "rewrite": RewriteEdit,
    "delete": DeleteEdit,
    "insert": InsertEdit,
    "add-import": AddImportEdit,
    "replace-body": ReplaceBodyEdit,
    "set-value": SetValueEdit,
    "codemod": CodemodEdit,
    "text": TextEdit,
    "diff": DiffEdit,
    "add-file": AddFileEdit,
}


def _verb(value: Any) -> str | None:
    if isinstance(value, Declared):
        return next(TAG + verb for verb, kind in VERBS.items() if isinstance(value, kind))
    verbs = [verb for verb in VERBS if isinstance(value, dict) and verb in value]
    return TAG + verbs[0] if len(verbs) == 1 else None


def _spelt_right(value: Any) -> Any:
    """Name the verb that a misspelt key probably is."""
    if isinstance(value, dict) and not any(verb in value for verb in VERBS):
        known = {key for kind in VERBS.values() for key in valid_keys(kind)}
        for key in (str(key) for key in value if key not in known):
            for near in difflib.get_close_matches(key, VERBS, n=1):
                raise ValueError(f"unknown key {key!r}: did you mean {near!r}?")
    return value


Edit = Annotated[
    Annotated[ChangeEdit, Tag(TAG + "change")]
    | Annotated[AddKeywordEdit, Tag(TAG + "add-keyword")]
    | Annotated[RewriteEdit, Tag(TAG + "rewrite")]
    | Annotated[DeleteEdit, Tag(TAG + "delete")]
    | Annotated[InsertEdit, Tag(TAG + "insert")]
    | Annotated[AddImportEdit, Tag(TAG + "add-import")]
    | Annotated[ReplaceBodyEdit, Tag(TAG + "replace-body")]
    | Annotated[SetValueEdit, Tag(TAG + "set-value")]
    | Annotated[CodemodEdit, Tag(TAG + "codemod")]
    | Annotated[TextEdit, Tag(TAG + "text")]
    | Annotated[DiffEdit, Tag(TAG + "diff")]
    | Annotated[AddFileEdit, Tag(TAG + "add-file")],
    Discriminator(
        _verb,
        custom_error_type="verb",
        custom_error_message=f"an edit has exactly one of the keys {', '.join(VERBS)}",
    ),
    BeforeValidator(_spelt_right),
]


class Predicate(Declared):
    """Something that is or is not in a tree: one of find, text, all, any, none."""

    find: Text | None = Field(None, description="a code pattern")
    text: Text | None = Field(None, description="a text, byte for byte")
    all_: tuple[Predicate, ...] | None = Field(None, min_length=1)
    any_: tuple[Predicate, ...] | None = Field(None, min_length=1)
    none: tuple[Predicate, ...] | None = Field(None, min_length=1)
    unless: Texts | None = Field(
        None,
        description="code patterns: what `find` finds does not count if one of these matches it",
    )
    files: Texts | None = None
    within: str | None = None
    where: Where = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_kind(self) -> Predicate:
        kinds = (self.find, self.text, self.all_, self.any_, self.none)
        if sum(kind is not None for kind in kinds) != 1:
            raise ValueError("give exactly one of find, text, all, any, none")
        if self.unless is not None and self.find is None:
            raise ValueError("unless needs find")
        return self
