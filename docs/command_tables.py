"""Write the reference of all commands from their code, with a table of options for each.

mkdocs calls `on_page_markdown` for each page; mkdocs.yml names this file under `hooks`.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import click

from vpatch.main import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "<!-- commands -->"
PROGRAM = "vpatch"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put all commands in place of the mark; other pages stay as they are."""
    return markdown.replace(MARK, reference()) if MARK in markdown else markdown


def reference() -> str:
    """Return a list of the commands, the options of all of them, and a section for each."""
    context = _context(cli, PROGRAM)
    everywhere = frozenset(_options(context))
    contexts = list(_below(context))
    lines = ["| command | what it does |", "|---|---|"]
    lines += [
        f"| [`{one.command_path}`](#{_anchor(one)}) | {_cell(_paragraphs(one)[0])} |"
        for one in contexts
    ]
    lines += [
        "",
        f"## Options of {PROGRAM} itself",
        "",
        "Each command has them too, but `--version`.",
        "",
    ]
    lines += _table(_options(context))
    for one in contexts:
        lines += ["", *_section(one, everywhere)]
    return "\n".join(lines)


def _context(
    command: click.Command, name: str, parent: click.Context | None = None
) -> click.Context:
    return click.Context(command, info_name=name, parent=parent, **command.context_settings)


def _below(context: click.Context) -> Iterator[click.Context]:
    """The commands of a group and of the groups in it, as `--help` lists them."""
    group = context.command
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            below = _context(command, name, context)
            yield below
            yield from _below(below)


def _section(context: click.Context, everywhere: frozenset[tuple[str, str]]) -> Iterator[str]:
    path = context.command_path
    level = "#" * len(path.split())
    yield f"{level} {path} {{ #{_anchor(context)} data-toc-label='{path.partition(' ')[2]}' }}"
    yield ""
    yield f"```text\n{' '.join([path, *context.command.collect_usage_pieces(context)])}\n```"
    yield ""
    for paragraph in _paragraphs(context):
        yield f"{paragraph}\n"
    own = [option for option in _options(context) if option not in everywhere]
    if own:
        yield from _table(own)


def _anchor(context: click.Context) -> str:
    return context.command_path.replace(" ", "-")


def _paragraphs(context: click.Context) -> list[str]:
    """The text of a command's help; click marks a paragraph whose lines stay with a backspace."""
    text = inspect.cleandoc(context.command.help or "")
    return [
        f"```text\n{paragraph.lstrip()}\n```" if "\b" in paragraph else paragraph
        for paragraph in text.replace("\b\n", "\b").split("\n\n")
    ]


def _options(context: click.Context) -> list[tuple[str, str]]:
    """The options that `--help` shows, each with what it does."""
    records = (option.get_help_record(context) for option in context.command.get_params(context))
    return [record for record in records if record is not None]


def _table(options: list[tuple[str, str]]) -> Iterator[str]:
    yield "| option | what it does |"
    yield "|---|---|"
    for names, text in options:
        yield f"| `{names.replace('|', chr(92) + '|')}` | {_cell(text)} |"


def _cell(text: str) -> str:
    """A text as the cell of a table, in which only code has a form."""
    escaped = " ".join(text.split())
    for sign, written in (("<", "&lt;"), ("|", "&#124;"), ("*", "\\*"), ("[", "\\["), ("_", "\\_")):
        escaped = escaped.replace(sign, written)
    return escaped
