"""Options by their old names: they work for one release, and nothing shows them any more."""

from __future__ import annotations

import re

import click
import pytest

from tests.documents import ROOT
from vpatch.console.renamed_options import RenamedOption
from vpatch.main import cli

RENAMED = {
    "apply": {"--to": "--checkout"},
    "audit": {"--trust-untested": "--count-untested"},
    "build-image": {"--to": "--checkout"},
    "check": {"--to": "--checkout"},
    "checkpoint graft-mtp": {"--as": "--tensor-format"},
    "checkpoint ignore-names": {"--fix": "--write"},
    "checkpoint inspect": {"--platform": "--accelerator", "--engine": "--python"},
    "diff": {"--to": "--checkout"},
    "import": {"--run": "--from-script", "--at": "--sandbox-path"},
    "run": {"--check": "--dry-run"},
    "smoke": {"--to": "--evidence-dir", "--on": "--cluster"},
    "test": {"--to": "--evidence-dir", "--on": "--cluster", "--again": "--rerun"},
    "trust": {"--show": "--dry-run"},
    "bench": {"--to": "--output-dir", "--on": "--cluster"},
    "bench compare": {"--html": "--output"},
    "evidence list": {"--from": "--evidence-dir"},
    "evidence show": {"--from": "--evidence-dir"},
    "evidence verify": {"--from": "--evidence-dir"},
    "upstream-pr": {"--from": "--evidence-dir", "--on": "--onto"},
    "wheel": {"--output": "--output-dir"},
}
# They never had another `--to`.
WITH_TO = ("bump", "compat")
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
    assert name in WITH_TO or not OLD.search(text)
    hidden = {one.opts[0] for one in command.params if getattr(one, "hidden", False)}
    for new in RENAMED.get(name, {}).values():
        assert (new in text) == (new not in hidden)
    with_from = {"checkpoint graft-mtp", "compat"}
    assert bool(re.search(r"--from(?![\w-])", text)) == (name in with_from)


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
        if file.name not in {"test_options.py", "compat.md"} and not {*WITH_TO} & {*file.parts}
        for line in file.read_text(encoding="utf-8").splitlines()
        if OLD.search(line) and "old=" not in line
        # The range of compat is always named with both ends.
        if not any(name in line for name in (*WITH_TO, "--from"))
    ]
    assert found == []


def shown_options():
    """The options of each command that its help shows, and the name of the command."""
    for name, command in [("", cli), *commands()]:
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                yield name, option


def test_the_help_of_all_commands_shows_few_options():
    """A further option takes the place of another one, or raises this with its reason.

    The last ones are `bump --continue` and `--abort`, the two ends of a bump that waits for
    somebody, `compat --github`, which asks what `bump --github` asks, `test --record-examples`,
    for what `import --examples` writes for a new patch, `import --fuzz`, which is never safe
    without somebody who looks, `import --update`, which must not be taken for a new patch, and
    `refresh --into`, which names the new patch that gets a change in place of the edited one.
    """
    helps = 1 + len([*commands()])
    assert helps + len([*shown_options()]) < 327


def test_an_option_takes_the_same_in_each_command():
    kinds = {}
    for _, option in shown_options():
        # Some commands look whether a path is there.
        name = "text" if option.type.name in {"path", "file", "directory"} else option.type.name
        kinds.setdefault(option.opts[0], set()).add((name, option.is_flag, option.nargs))
    several = {name: kind for name, kind in kinds.items() if len(kind) > 1}
    assert several == {}


COMMON = (
    ("--offline",),
    ("--trust",),
    ("--library",),
    ("--patches-dir", "more"),
    ("--recipes-dir", "more"),
)


@pytest.mark.parametrize("option", COMMON, ids=" ".join)
def test_a_common_option_comes_before_or_after_the_command(project, option):
    (project.folder / "more").mkdir()
    words = ("status", "--vllm", "0.50.0")
    project.run(*words)  # what is fetched once is there without a network
    before, after = (project.run(*args) for args in ((*option, *words), (*words, *option)))
    assert before.out == after.out


def test_a_folder_before_the_command_and_one_after_it_both_count(project):
    for name in ("one", "two"):
        project.patch(name, EDIT)
        (project.folder / name).mkdir()
        (project.patches / name).rename(project.folder / name / name)
    run = project.run("--patches-dir", "one", "list", "--patches-dir", "two", "--json")
    assert {"one", "two"} <= {patch["id"] for patch in run.json["patches"]}


def test_offline_before_the_command_is_offline(project):
    project.env["VPATCH_CACHE_DIR"] = str(project.folder / "other cache")
    run = project.run("--offline", "status", "--vllm", "0.50", code=4)
    assert "offline" in run.err


@pytest.mark.parametrize("option", COMMON, ids=" ".join)
@pytest.mark.parametrize("command", [("cache", "list"), ("schema", "patch")], ids=" ".join)
def test_a_common_option_that_has_no_effect_is_refused(empty, option, command):
    run = empty.run(*option, *command, code=2)
    assert f"error: vpatch {' '.join(command[:1])}" in run.err
    assert f"does not take {option[0]}\n  next: leave out {option[0]}" in run.err


def test_an_option_that_a_command_takes_after_its_name_is_not_called_unknown(project):
    run = project.run("--evidence-dir", "there", "test", "name-proj", code=2)
    assert "vpatch test does not take --evidence-dir before its name" in run.err
    assert "next: write it after test\n" in run.err


def test_evidence_is_named_before_or_after_the_command(project):
    (project.folder / "there").mkdir()
    after = project.run("evidence", "list", "--evidence-dir", "there")
    assert project.run("--evidence-dir", "there", "evidence", "list").out == after.out
    assert "there" in after.out


def test_what_is_logged_may_be_said_before_or_after(project):
    after = project.run("list", "-v", "--log-file", "after.txt")
    before = project.run("-v", "--log-file", "before.txt", "list")
    assert before.out == after.out
    for name in ("after", "before"):
        assert "ended with 0" in (project.folder / f"{name}.txt").read_text()


@pytest.mark.parametrize("command", ["status", "audit"])
def test_all_is_short_for_every_release(project, command):
    short = project.run(command, "--all", "--json", code=None).json
    assert project.run(command, "--vllm", "all", "--json", code=None).json == short
    run = project.run(command, "--all", "--vllm", "0.50", code=2)
    assert "one of" in run.err


@pytest.mark.parametrize("command", ["status", "apply"])
@pytest.mark.parametrize("release", ["0.23", "v0.23.0", "latest", "0.21.0+cu129"])
def test_a_release_without_its_option_gets_a_hint(empty, command, release):
    run = empty.run(command, release, code=2)
    assert f"next: did you mean --vllm {release}? If not, see vpatch {command} --help" in run.err


def test_a_recipe_that_is_not_there_hints_at_the_release(empty):
    run = empty.run("apply", "--recipe", "vllm-0.99", code=2)
    assert "did you mean 'vllm-0." in run.err
    assert "For the release without a recipe: --vllm 0.99\n" in run.err
