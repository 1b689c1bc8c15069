"""What upstream's own tree says of a proposal: tags of titles, labels, what counts as its size."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unidiff.patch import PatchSet

from vpatch.source.rule_files import REPORT, RulesError, read_text, read_yaml
from vpatch.util.matching import PatternFaultError, found_in

if TYPE_CHECKING:
    from collections.abc import Collection

    from vpatch.declare.target import Sizes, Titles
    from vpatch.source.tree import Tree

# As upstream's workflow pr-title.yml asks for.
_TITLE = re.compile(r"((?:\[[^][]+\])+) +\S")
_TAG = re.compile(r"\[([^][]+)\]")
_QUOTED_TAGS = re.compile(r"`((?:\[[^][`]+\])+)`")
# What odd values of a file do, where other values are expected.
_ODD = (AttributeError, LookupError, RecursionError, TypeError, ValueError)


def tags_of(title: str) -> list[str] | None:
    """Return the bracketed tags at the start of a title; None without tags or other words."""
    match = _TITLE.match(title)
    return _TAG.findall(match[1]) if match else None


def known_tags(tree: Tree, titles: Titles) -> tuple[frozenset[str], bool]:
    """Return the tags that upstream lists, and whether it accepts others as well.

    Raises:
        RulesError: the file or the heading is not there.
    """
    text = read_text(tree, titles.tags_in)
    below = rf"^(#+) +{re.escape(titles.below)}\s*$(.*?)(?=^#{{1,6}} |\Z)"
    section = re.search(below, text, re.MULTILINE | re.DOTALL)
    if section is None:
        raise RulesError(
            f"it has no heading {titles.below!r}",
            where=titles.tags_in,
            hint="write in the target what upstream's tree has",
        )
    tags = {tag for quoted in _QUOTED_TAGS.findall(section[2]) for tag in _TAG.findall(quoted)}
    return frozenset(tags), "any descriptive tag" in section[2].lower()


def labels_for(tree: Tree, file: str, title: str, paths: Collection[str]) -> list[str]:
    """Return the labels that Mergify's rules in `file` give a pull request, as far as can be told.

    Conditions are on files and the title; a rule with a positive one of another kind is passed
    over. https://docs.mergify.com/configuration/conditions/

    Raises:
        RulesError: the file is not there, or has no such rules.
    """
    rules = read_yaml(tree, file, "pull_request_rules", "rules")["pull_request_rules"]
    labels: dict[str, None] = {}
    try:
        for rule in rules:
            added = (rule.get("actions", {}).get("label") or {}).get("add") or ()
            if added and all(_holds(one, title, paths) for one in rule.get("conditions", ())):
                labels |= dict.fromkeys(added)
        return sorted(labels)
    except PatternFaultError as error:
        raise RulesError(
            f"a condition cannot be evaluated: {error}", where=file, hint=REPORT
        ) from error
    except _ODD as error:
        raise RulesError(
            f"these are not Mergify's rules: {type(error).__name__}: {error}",
            where=file,
            hint=REPORT,
        ) from error


def _holds(condition: Any, title: str, paths: Collection[str]) -> bool:
    if isinstance(condition, dict):
        ((how, inner),) = condition.items()
        answers = [_holds(one, title, paths) for one in inner]
        return any(answers) if how == "or" else all(answers) and how == "and"
    negative = str(condition).startswith("-")
    subject, operator, wanted = _split(condition.removeprefix("-"))
    values: Collection[str] = {"files": paths, "title": [title]}.get(subject, ())
    if subject not in {"files", "title"}:
        return negative or operator == "!="  # a new pull request is neither closed nor labelled
    matches = bool(found_in(wanted, values)) if operator == "~=" else wanted in values
    return matches is not negative


def _split(condition: str) -> tuple[str, str, str]:
    match = re.match(r"([\w#-]+)\s*(~=|!=|=)\s*(.*)", condition)
    return (match[1], match[2], match[3].strip("'\"")) if match else (condition, "", "")


@dataclass(frozen=True)
class Size:
    """Lines that a diff adds: those that upstream counts, and all of them."""

    counted: int
    added: int


def size_of(diff: bytes, sizes: Sizes) -> Size:
    added = {file.path: file.added for file in PatchSet(diff.decode(errors="replace"))}
    counted = {
        path: lines
        for path, lines in added.items()
        if not any(fnmatch.fnmatchcase(path, glob) for glob in sizes.not_counted)
    }
    return Size(sum(counted.values()), sum(added.values()))
