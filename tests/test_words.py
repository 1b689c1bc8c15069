"""Documentation, `--help`, docstrings and comments: what a program can check of plain English."""

from __future__ import annotations

import ast
import io
import re
import tokenize

import click
import pytest

from tests.documents import ROOT, pages
from vpatch.cli import cli

# Each with what to write instead.
REFUSED = {
    r"of which|whom": "name the thing again, in a sentence of its own",
    r"stands?(?! alone)": "is, is there, means",
    r"(?:is|are) said": "name who says it: vpatch says, the report names",
    r"(?:is|are) none of|(?<!there )is none": "is not, has no",
    r"said to be": "is reported as, is listed as",
    r"(?<!there )is no (?!longer)": "is not a",
    r"mended|mends?": "fixes, corrects",
    r"all the same": "anyway",
    r"what became of it": "the result",
    r"for ever|as it were|so as to|in order to": "leave it out, or write to",
    r"herein|thereof|whereby|wherein|therein": "write here, of it, by which, in it",
    r"utili[sz]e|leverage|simply|obviously|seamless(?:ly)?": "use; or leave it out",
}
MOST_WORDS = 30
MOST_WORDS_OF_A_COMMAND = 17  # its first sentence is a line of `vpatch --help`
FENCED = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)


def prose(text):
    """The paragraphs and list items of a page, without code, tables, headings and HTML."""
    text = FENCED.sub("\n\n", text)
    text = re.sub(r"^(?:\||#|:::|    :|<|\s*- `[^`]*`$).*", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "CODE", text)
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text)
    return [" ".join(part.split()) for part in parts if part.strip()]


def sentences(text):
    return [one for part in prose(text) for one in re.split(r"(?<=[.?!:;])\s+", part)]


BESIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = pages() | {name: (ROOT / name).read_text(encoding="utf-8") for name in BESIDE}


def odd(text):
    """The phrases of a text that are refused, each with what to write instead."""
    text = re.sub(r"`[^`\n]*`", "CODE", FENCED.sub("", text))
    return [
        f"{match[0]!r}, write: {better}"
        for phrase, better in REFUSED.items()
        for match in re.finditer(rf"\b(?:{phrase})\b", text, re.IGNORECASE)
    ]


def too_long(text):
    return [one for one in sentences(text) if len(one.split()) > MOST_WORDS]


@pytest.mark.parametrize("name", PAGES)
def test_odd_phrases_are_refused(name):
    # Tables count here: they are sentences as well.
    assert odd(PAGES[name]) == []


@pytest.mark.parametrize("name", PAGES)
def test_sentences_are_short(name):
    assert too_long(PAGES[name]) == []


def helped(command, name="vpatch"):
    """The help of a command and of its options, and of all commands below it."""
    options = [o for o in command.params if isinstance(o, click.Option)]
    yield name, "\n\n".join([command.help or "", *(o.help or "" for o in options)])
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            yield from helped(command.get_command(context, below), f"{name} {below}")


HELP = dict(helped(cli))


@pytest.mark.parametrize("name", HELP)
def test_help_is_in_plain_english(name):
    # "[default: ...]" ends an option's help, and is a sentence of its own.
    text = HELP[name].replace("  [default", ". [default")
    assert odd(text) == []
    assert too_long(text) == []
    first = text.split("\n\n")[0]
    assert len(first.split()) <= MOST_WORDS_OF_A_COMMAND


def test_every_option_has_a_help():
    for name in HELP:
        command, context = cli, click.Context(cli)
        for word in name.split()[1:]:
            command = command.get_command(context, word)
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, f"{name} {option.opts[0]}"


def docstrings(tree):
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds))
    return [text for text in found if text]


def comments(source):
    """The comments, each with those in the lines right below it."""
    last, found = None, []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string.lstrip("# ")
        if token.type != tokenize.COMMENT or text.startswith(("noqa", "type:", "fmt:")):
            continue
        if token.start[0] - 1 == last:
            found[-1] += f" {text}"
        else:
            found.append(text)
        last = token.start[0]
    return found


def code_is_in_plain_english(source):
    # None is Python's, and no word.
    texts = [*docstrings(ast.parse(source)), *comments(source)]
    texts = [text.replace("None", "`None`") for text in texts]
    return [
        *(hit for text in texts for hit in odd(text)),
        *(hit for t in texts for hit in too_long(t)),
    ]


MODULES = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "vpatch").rglob("*.py")}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_docstrings_and_comments_are_in_plain_english(name):
    assert code_is_in_plain_english(MODULES[name].read_text(encoding="utf-8")) == []


def test_what_of_code_is_read():
    source = '"""One.\n\nTwo."""\nx = 1  # of\n# which\ndef f():\n    """None of which."""\n'
    assert docstrings(ast.parse(source)) == ["One.\n\nTwo.", "None of which."]
    assert comments(source) == ["of which"]
    assert len(code_is_in_plain_english(source)) == 2
    assert code_is_in_plain_english("# " + "word " * 31) != []
    assert code_is_in_plain_english("x = 1  # noqa: of which\n") == []


def test_what_is_refused_and_what_is_not():
    text = "# Head of which\n\nOne two. Three\nfour.\n\n- five `six seven`\n\n```\nwhom\n```\n"
    assert sentences(text) == ["One two.", "Three four.", "- five CODE"]
