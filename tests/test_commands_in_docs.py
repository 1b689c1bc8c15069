"""Each vpatch command that a page shows, in a block or in a sentence, is one that vpatch reads."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from itertools import takewhile

import click

from tests.documents import ROOT, pages
from vpatch.errors import VpatchError
from vpatch.library.catalog import installed
from vpatch.main import cli
from vpatch.source.index import parse_version

_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_SHELL = frozenset(["bash", "console", "sh", "shell", "yaml"])
_START = re.compile(r"^[\s$-]*(?:run: )?(?:\S+=\S+ )*(?:\S*/bin/)?(?:uvx )?(?=vpatch )")
_INLINE = re.compile(r"(`+)(.+?)\1(?!`)", re.DOTALL)
_END = frozenset(["|", ">", ">>", "&&", "||", ";", "2>", "#", "<", "2>&1"])
# Where a sentence or a usage line leaves something out.
_LEFT_OUT = re.compile(r"\s*(?:\[[^\]]*\.\.\.\]|\[OPTION[^\]]*\]|\.\.\.|…)")
_PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9_@=/.|-]*$|.*[<>{}$*].*")
# Names of recipes and patches that a page has its reader write.
MADE_IN_A_PAGE = (
    *("mine", "small", "longer-drafts", "low-temperature", "slow-mode"),
    *("serving-0.23", "serving-0.25"),
    "the-tokens-of-one-more-draft",
)
# Each has a test of its own with `--vllm all`.
_ALL_RELEASES = frozenset(["audit", "status", "test", "checkpoint inspect"])


def _lines(text):
    """Commands of blocks, with lines that go on joined, each with whether it must be whole."""
    for language, block in _BLOCK.findall(text):
        if language in _SHELL:
            for line in block.replace("\\\n", " ").splitlines():
                for part in re.split(r" && |; | \| ", line):
                    start = _START.match(part)
                    if start:
                        yield part[start.end() :], True
    for _, code in _INLINE.findall(_BLOCK.sub("", text)):
        # Inline code may be broken at the end of a line.
        command = " ".join(code.split())
        start = _START.match(command)
        if start:
            yield command[start.end() :], False


def _words(command):
    return list(takewhile(lambda w: w not in _END, shlex.split(_LEFT_OUT.sub("", command))))[1:]


def shown():
    texts = pages()
    for name in ("AGENTS.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"):
        texts[name] = (ROOT / name).read_text(encoding="utf-8")
    return sorted({(page, *line) for page, text in texts.items() for line in _lines(text)})


def _parsed(words, *, whole):
    """The contexts of a command line: that of vpatch, of a group in it, and of the command."""
    contexts = [cli.make_context("vpatch", list(words))] if words else []
    while contexts and isinstance(contexts[-1].command, click.Group):
        rest = [*contexts[-1]._protected_args, *contexts[-1].args]
        if not rest:
            break
        _, command, args = contexts[-1].command.resolve_command(contexts[-1], rest)
        try:
            contexts.append(command.make_context(rest[0], args, parent=contexts[-1]))
        except (click.MissingParameter, click.BadOptionUsage, click.exceptions.NoArgsIsHelpError):
            # A sentence may name an option alone: `vpatch smoke --image`.
            if whole:
                raise
            break
    return contexts


def _wrong_values(contexts, recipes, patches):
    command = " ".join(str(context.info_name) for context in contexts[1:])
    values = {name: v for context in contexts for name, v in context.params.items() if v}
    for release in str(values.get("vllm", "0")).split(","):
        is_all = release == "all" and command in _ALL_RELEASES
        is_build = release.startswith(("env:", "wheel:")) or "==" in release
        is_place = "/" in release or release.startswith((".", "~")) or is_build
        if not (is_all or is_place or _PLACEHOLDER.match(release) or parse_version(release)):
            yield f"--vllm {release}"
    recipe = values.get("recipe")
    if isinstance(recipe, str) and recipe not in recipes and not _PLACEHOLDER.match(recipe):
        yield f"--recipe {recipe}"
    for patch in _values_of("--patch", contexts):
        if patch not in patches and not _PLACEHOLDER.match(patch):
            yield f"--patch {patch}"


def _values_of(option, contexts):
    """The values of an option that can be repeated, whatever the code calls its parameter."""
    for context in contexts:
        for param in context.command.params:
            if option in param.opts:
                yield from context.params.get(param.name) or ()


def _choice_or_placeholder(convert):
    """Let a sentence name a choice by a placeholder, as it may name a patch: `--format KIND`."""

    def converted(self, value, param, context):
        is_placeholder = isinstance(value, str) and _PLACEHOLDER.match(value)
        return value if is_placeholder else convert(self, value, param, context)

    return converted


def test_each_command_that_is_shown_is_read(monkeypatch):
    # The files and folders are the reader's.
    monkeypatch.setattr(click.Path, "convert", lambda _self, value, _param, _context: value)
    monkeypatch.setattr(click.Choice, "convert", _choice_or_placeholder(click.Choice.convert))
    recipes = {path.stem for path in installed("recipes").glob("*.yaml")} | set(MADE_IN_A_PAGE)
    patches = {path.parent.name for path in installed("patches").rglob("patch.yaml")}
    wrong = []
    lines = shown()
    for page, command, whole in lines:
        try:
            with suppress(click.exceptions.Exit):  # --help and --version
                contexts = []
                contexts = _parsed(_words(command), whole=whole)
        except (VpatchError, click.ClickException, ValueError) as error:
            wrong.append(f"{page}: {command}: {getattr(error, 'message', None) or error!r}")
        else:
            values = _wrong_values(contexts, recipes, patches | set(MADE_IN_A_PAGE))
            wrong += [f"{page}: {command}: {value}" for value in values]
    assert not wrong, "\n".join(wrong)
    assert len(lines) > 300
