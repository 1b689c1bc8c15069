"""The part of YAML that declarations may use: no aliases, no tags, no deep nesting."""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml.comments import TaggedScalar
from ruamel.yaml.composer import Composer, ComposerError
from ruamel.yaml.constructor import ConstructorError, RoundTripConstructor
from ruamel.yaml.events import AliasEvent

_DEEPEST = 40
_BITS = 256
_TAGS = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("bool", "float", "int", "map", "null", "seq", "str")
)
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")


class PlainComposer(Composer):
    """Refuses aliases, tags and deep nesting.

    Nobody needs them here. A few lines of aliases fill any memory, and the scanner takes hours for
    thousands of open brackets.
    """

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.parser.check_event(AliasEvent):
            event = self.parser.peek_event()
            raise ComposerError(
                None,
                None,
                "an alias (*name) is not allowed here; write the value again",
                event.start_mark,
            )
        event = self.parser.peek_event()
        if self._depth == _DEEPEST:
            problem = f"nested more than {_DEEPEST} levels deep"
            raise ComposerError(None, None, problem, event.start_mark)
        tag = getattr(event, "tag", None)
        if tag is not None and str(tag) not in {*_TAGS, "!"}:
            problem = f"a tag ({tag}) is not allowed here; remove it"
            raise ComposerError(None, None, problem, event.start_mark)
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


class PlainConstructor(RoundTripConstructor):
    """Gives the line of a value that cannot be read. Refuses text that no file can hold.

    Values are those that JSON has.
    """

    def construct_object(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - ruamel's
        try:
            value = super().construct_object(node, deep=deep)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise ConstructorError(None, None, _unreadable(node, error), node.start_mark) from error
        if isinstance(value, TaggedScalar):  # !!str 12, and the plain =
            value = value.value
        if isinstance(value, str) and _UNWRITABLE.search(value):
            problem = "a text has half of a surrogate pair, or a NUL"
            raise ConstructorError(None, None, problem, node.start_mark)
        if isinstance(value, int) and value.bit_length() > _BITS:
            raise ConstructorError(None, None, _unreadable(node), node.start_mark)
        return value


# A day without quotes is text, as in YAML's own core schema: JSON has no dates either.
PlainConstructor.add_constructor(
    "tag:yaml.org,2002:timestamp", RoundTripConstructor.construct_yaml_str
)


def _unreadable(node: Any, error: Exception | None = None) -> str:
    text = node.value if isinstance(node.value, str) else ""
    if len(text) > _BITS // 4:
        return f"a value of {len(text)} characters is too long for its kind"
    return f"{text!r} is not a value of its kind ({error})"
