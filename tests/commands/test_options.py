"""Options by their old names: they work for one release, and nothing shows them any more."""

from __future__ import annotations

import re

import click
import pytest

from tests.documents import ROOT
from vpatch.console.options import RenamedOption
from vpatch.main import cli

RENAMED = {
    "apply": {"--to": "--checkout"},
    "build-image": {"--to": "--checkout"},
    "check": {"--to": "--checkout"},
    "diff": {"--to": "--checkout"},
    "smoke": {"--to": "--evidence-dir"},
    "test": {"--to": "--evidence-dir"},
    "bench": {"--to": "--output-dir"},
    "evidence list": {"--from": "--evidence-dir"},
    "evidence show": {"--from": "--evidence-dir"},
    "evidence verify": {"--from": "--evidence-dir"},
    "upstream-pr": {"--from": "--evidence-dir"},
}
# It never had another `--to`.
BUMP = "bump"
EDIT = "- {find: f(), rewrite: g()}"
LIBRARY = {"--patches": "--patches-dir", "--recipes": "--recipes-dir"}
OLD = re.compile(r"(?<![\w-])--(?:to|patches|recipes)(?![\w-])|evidence \w+ [^\n`]*--from\b")
READ = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "vpatch", "patches", "recipes")
SUFFIXES = {".md", ".py", ".yml", ".yaml", ".html"}
BESIDE = (".github", ".ci", "benchmarks", "tests")


def commands(group=cli, path=()):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield " ".join((*path, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def note(old, new):
    return f"note: {old} is now {new}; the old name goes with the next release\n"


def test_these_options_have_old_names():
    found = {
        name: {o.old: o.opts[0] for o in command.params if isinstance(o, RenamedOption)}
        for name, command in commands()
    }
    with_library = {name for name, options in found.items() if LIBRARY.items() <= options.items()}
    # A new command that takes the options of the library gets their old names too.
    assert with_library >= {
        *(
            "apply",
            "audit",
            "bench",
            "build-image",
            "check",
            "checkpoint inspect",
            "diagnose",
            "diff",
        ),
        *("bump", "evidence list", "evidence verify", "list", "run", "show", "smoke", "status"),
        *("install", "test", "upstream-pr", "upstream-status", "verify-env", "wheel"),
    }
    own = {
        name: {old: new for old, new in options.items() if old not in LIBRARY}
        for name, options in found.items()
    }
    assert {name: options for name, options in own.items() if options} == RENAMED


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=[n for n, _ in commands()])
def test_help_shows_no_old_name(name, command):
    # A command keeps the option for help that it shows first.
    settings = {"help_option_names": ["-h", "--help"]}
    with click.Context(command, info_name=name, **settings) as context:
        text = command.get_help(context)
    assert name == BUMP or not OLD.search(text)
    for new in RENAMED.get(name, {}).values():
        assert new in text
    assert bool(re.search(r"--from(?![\w-])", text)) == (name == "checkpoint graft-mtp")


def test_checkouts_are_found_by_the_old_name(project):
    run = project.apply("--to", "out", "--json")
    assert [made["folder"] for made in run.json["checkouts"]] == ["out"]
    assert note("--to", "--checkout") in run.err
    for command in ("check", "diff"):
        again = project.run(command, "--to=out")
        assert again.err.startswith(note("--to", "--checkout"))
        assert again.out == project.run(command, "--checkout", "out").out
    assert "is now" not in project.run("check", "--checkout", "out").err


def test_folders_of_the_library_are_found_by_the_old_names(project):
    project.patch("first", EDIT)
    (project.folder / "patches").rename(project.folder / "mine")
    (project.folder / "lists").mkdir()
    (project.folder / "lists" / "some.yaml").write_text("vllm: 0.50.0\npatches: [first]\n")
    old = project.run("list", "--patches", "mine", "--recipes", "lists", "--json")
    assert "first" in {patch["id"] for patch in old.json["patches"]}
    assert {"name": "some", "file": "lists/some.yaml"} in old.json["recipes"]
    assert note("--patches", "--patches-dir") in old.err
    assert note("--recipes", "--recipes-dir") in old.err
    new = project.run("list", "--patches-dir", "mine", "--recipes-dir", "lists", "--json")
    assert (new.out, new.err) == (old.out, "")


def test_folders_by_an_old_and_a_new_name_all_count(project):
    for name in ("one", "two"):
        project.patch(name, EDIT)
        (project.folder / name).mkdir()
        (project.patches / name).rename(project.folder / name / name)
    run = project.run("list", "--patches", "one", "--patches-dir", "two", "--json")
    assert {"one", "two"} <= {patch["id"] for patch in run.json["patches"]}


def test_one_folder_by_two_names_is_refused(project):
    run = project.apply("--to", "a", "--checkout", "b", code=2)
    assert "error: --to is the old name of --checkout\n  next: give --checkout alone\n" in run.err
    assert not (project.folder / "a").exists()


@pytest.mark.parametrize("command", ["list", "show", "verify"])
def test_evidence_is_found_by_the_old_name(project, command):
    (project.folder / "kept").mkdir()
    name = [] if command == "list" else ["no-such"]
    run = project.run("evidence", command, *name, "--from", "kept", code=None)
    assert run.err.startswith(note("--from", "--evidence-dir"))
    assert "kept" in run.out + run.errors


def test_evidence_is_written_by_the_old_name(project):
    run = project.run("smoke", "--to", "kept", "--name", "a/b", code=2)
    assert run.err.startswith(note("--to", "--evidence-dir"))
    run = project.run("bench", "--to", "kept", "--name", "a/b", code=2)
    assert run.err.startswith(note("--to", "--output-dir"))
    run = project.run("test", "name-proj", "--to", "kept", code=2)
    assert run.err.startswith(note("--to", "--evidence-dir"))
    assert "error: --evidence-dir would have no effect without --engine\n" in run.err


def test_completing_a_command_line_prints_no_note(capsys):
    apply = cli.get_command(click.Context(cli), "apply")
    apply.make_context("apply", ["--to", "out"], resilient_parsing=True)
    assert capsys.readouterr() == ("", "")


def test_completing_a_command_line_with_both_names_goes_on():
    apply = cli.get_command(click.Context(cli), "apply")
    words = ["--to", "out", "--checkout", "there"]
    context = apply.make_context("apply", words, resilient_parsing=True)
    assert context.params["checkout"]


@pytest.mark.parametrize(
    ("written", "meant"), [("--fro", "--checkout"), ("--patchs", "--patches-dir")]
)
def test_a_hint_names_no_old_name(empty, written, meant):
    assert f"did you mean '{meant}'" in empty.run("apply", written, "x", code=2).err


def read_files():
    for name in (*READ, *BESIDE):
        path = ROOT / name
        files = [path] if path.is_file() else path.rglob("*")
        yield from (f for f in files if f.suffix in SUFFIXES or f.parent.name == ".ci")


def test_only_the_new_names_are_written():
    found = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in read_files()
        if file.name != "test_options.py" and BUMP not in file.parts
        for line in file.read_text(encoding="utf-8").splitlines()
        if OLD.search(line) and "old=" not in line and BUMP not in line
    ]
    assert found == []
