"""patch.yaml, in the layout of the library's patches."""

from __future__ import annotations

import io
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from vpatch.commands.importing.log_messages import messages_of, new_messages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.changes.change import SourceChange
    from vpatch.deriving.candidate import Declared

_WIDTH = 110
_ORDER = (
    "find", "insert", "add-import", "set-value", "text", "diff", "add-file", "from", "rewrite",
    "add-keyword", "replace-body", "having", "of", "was", "before", "after", "at-start-of",
    "at-end-of", "beside", "within", "files", "expect",
)  # fmt: skip
# Begins the comment above an edit that goes by text.
AS_TEXT = "As text: "
_PROPOSED = "Proposed by vpatch import: look at it, then delete this line."
_SYMPTOM = re.compile(r"\b\w*(?:Error|Exception)\b: \S|Traceback|\bassert\b", re.IGNORECASE)
_MOST_SYMPTOMS = 3
_UNKNOWN = "write what people see without the patch, as it is in a log"


def patch_yaml(
    change: SourceChange,
    edits: Sequence[Declared],
    *,
    notes: Mapping[int, str],
    needed_in: tuple[str, str],
    concerns: Declared,
    effect: Declared | None,
    requires: Sequence[str] = (),
    upstreamed_in: str | None = None,
) -> str:
    """Return the text of patch.yaml.

    What the source does not say is a proposal, and has a comment that says so. `notes` are comments
    above edits by text, by their number. `needed_in` is a tree, and the claim for it.
    `upstreamed_in` is the first release that has the change.
    """
    message, (tree, claim) = change.message, needed_in
    title = message.title or f"Import {change.origin}"
    why = message.body or f"Imported from {change.origin}. Write which failure it cures."
    document = CommentedMap()
    document["id"] = change.id
    document["title"] = DoubleQuotedScalarString(title)
    document["why"] = _block(why)
    document["symptoms"] = CommentedSeq(_symptoms(change))
    document["needed-in"] = CommentedMap({tree: DoubleQuotedScalarString(claim)})
    document["concerns"] = _plain(concerns)
    if effect is not None:
        document["effect"] = _plain(effect)
    document["edits"] = _edit_list(edits, notes)
    if requires:
        document["requires"] = CommentedSeq(requires)
    document["remove-when"] = (
        "no recipe pins a release that needs it"
        if upstreamed_in is None
        else f"no recipe pins a release before {upstreamed_in}"
    )
    for key in ("symptoms", "needed-in", "concerns", "effect", "remove-when"):
        if key in document:
            why = _why_bounded(claim, upstreamed_in) if key == "needed-in" else ""
            document.yaml_set_comment_before_after_key(key, before=_PROPOSED + why)
    return _dump(document) + _threads(message.threads, upstreamed_in)


def _why_bounded(claim: str, upstreamed_in: str | None) -> str:
    """Why the claim ends before a release, as a further line of its comment."""
    _, is_bounded, end = claim.rpartition("<")
    if not is_bounded:
        return ""
    if upstreamed_in is not None:
        return f"\nIt ends before {end}, which has the change already."
    return f"\nIt ends before {end}: the patch was neither needed nor in conflict there."


def edits_yaml(edits: Sequence[Declared], notes: Mapping[int, str], indent: int) -> str:
    """Return edits as a list, with each dash in a column; `notes` are the reasons of text edits."""
    text = _dump(CommentedMap({"edits": _edit_list(edits, notes)})).partition("\n")[2]
    lines = text.splitlines(keepends=True)
    return "".join(" " * indent + line[2:] if line.rstrip("\n") else line for line in lines)


def effect_yaml(effect: Declared) -> str:
    """Return the lines of an effect."""
    return _dump(CommentedMap({"effect": _plain(effect)}))


def _edit_list(edits: Sequence[Declared], notes: Mapping[int, str]) -> CommentedSeq:
    listed = CommentedSeq([_order_keys(edit) for edit in edits])
    for index, note in notes.items():
        listed.yaml_set_comment_before_after_key(index, before=f"{AS_TEXT}{note}", indent=2)
    return listed


def _threads(threads: Sequence[str], upstreamed_in: str | None) -> str:
    """The threads that the source names, as comments: nothing says what each of them is."""
    if not threads:
        return ""
    state = "open" if upstreamed_in is None else f"merged, release: {upstreamed_in}"
    lines = "".join(
        f"#   - {{ref: {ref}, is: pull request, relation: same change, state: {state}}}\n"
        for ref in threads
    )
    return (
        f"# The source names these threads. Say what each is, and what became of it:\n"
        f"# upstream:\n{lines}"
    )


def _dump(document: CommentedMap) -> str:
    yaml = YAML()
    yaml.width = _WIDTH
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump(document, text)
    return text.getvalue()


def _symptoms(change: SourceChange) -> list[str]:
    """Proposals: what the source says of failures, and then what the code says before the change.

    The source may tell of messages that are new, too: those are not symptoms.
    """
    cured = new_messages(change.files)
    failures = [
        line.strip()
        for line in change.message.body.splitlines()
        if _SYMPTOM.search(line) and not any(text in line for text in cured)
    ]
    logged = messages_of(change.files)
    others = [text for text in logged if not any(text in line for line in failures)]
    symptoms = [*failures[:_MOST_SYMPTOMS], *others][:_MOST_SYMPTOMS]
    return [DoubleQuotedScalarString(line) for line in symptoms] or [_UNKNOWN]


def _order_keys(edit: Declared) -> CommentedMap:
    known = sorted(edit, key=lambda key: _ORDER.index(key) if key in _ORDER else len(_ORDER))
    ordered = CommentedMap({key: _plain(edit[key]) for key in known})
    for key in ("insert", "replace-body"):
        if isinstance(ordered.get(key), CommentedMap):
            ordered[key].fa.set_flow_style()
    return ordered


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return CommentedMap({key: _plain(inner) for key, inner in value.items()})
    if isinstance(value, (list, tuple)):
        return CommentedSeq([_plain(inner) for inner in value])
    if isinstance(value, str):
        return _block(value)
    return value


def _block(text: str) -> str:
    """The text as a block where it has several lines, if a block gives it back as it is."""
    if "\n" not in text.rstrip("\n") and not text.startswith("\n"):
        return text
    block = LiteralScalarString(text)
    yaml, dumped = YAML(), io.StringIO()
    yaml.width = _WIDTH
    # Tabs, and blanks at the ends of lines, get lost in some blocks.
    yaml.dump({"text": block}, dumped)
    is_same = False
    with suppress(YAMLError):
        is_same = yaml.load(dumped.getvalue())["text"] == text
    scalar: str = block if is_same else DoubleQuotedScalarString(text)
    return scalar
