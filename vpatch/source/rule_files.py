"""Files in which upstream states its rules, read from a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from vpatch.errors import VpatchError

if TYPE_CHECKING:
    from vpatch.source.tree import Tree


# Characters. The largest of vLLM's has 20 kB, and the parser takes seconds for a megabyte.
_LARGEST = 250_000
# What to do about a file that says something else than expected.
REPORT = "name another file in the target, or ask upstream to correct this one"


class RulesError(VpatchError):
    """Upstream's tree does not state its rules where the target says."""

    code = "upstream.unreadable-rules"


def read_yaml(tree: Tree, path: str, key: str, what: str) -> dict[str, Any]:
    """Read a YAML file of upstream's, which must have a key; `what` it says, for people.

    Raises:
        RulesError: it is not there, or does not.
    """
    text = read_text(tree, path)
    if len(text) > _LARGEST:
        raise RulesError(
            f"it is larger than {_LARGEST} characters",
            where=path,
            hint="name another in the target",
        )
    try:
        document = YAML(typ="safe", pure=True).load(text)
        document[key]
    except Exception as error:
        # Whatever the parser says of such a file: the file is wrong, and not vpatch.
        raise RulesError(
            f"it has no {what} that vpatch can read: {type(error).__name__}: {error}",
            where=path,
            hint=REPORT,
        ) from error
    return dict(document)


def read_text(tree: Tree, path: str) -> str:
    """Read a file that must be there as text.

    Raises:
        RulesError: it is not there, or is not a text file.
    """
    if path not in tree.paths():
        raise RulesError(
            "the file is not in upstream's tree", where=path, hint="correct the path in the target"
        )
    return text_of(tree, path)


def text_of(tree: Tree, path: str) -> str:
    """Read a file of upstream's tree as text.

    Raises:
        RulesError: it is not a text file.
    """
    try:
        return tree.read(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RulesError(
            f"is not UTF-8: {error.reason}", where=path, hint="ask upstream to correct it"
        ) from error
