"""What works without the packages of the extras, and what says which extra it needs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.checkpoint import builders
from tests.documents import page
from vpatch import cli
from vpatch.util.extras import EXTRAS

# Runs the code in its second argument as if the modules in the first one were not installed.
WITHOUT = """
import sys
from importlib.machinery import PathFinder

hidden = set(sys.argv[1].split(","))

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            return None
        return PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
code = sys.argv[2]
sys.argv[:] = ["vpatch", *sys.argv[3:]]
exec(code)
"""
MAIN = "from vpatch.cli import main; main()"
ALL = {module for modules in EXTRAS.values() for module in modules}
NEEDED = {
    "build-image": "image",
    "verify-image": "image",
    "smoke": "engine",
    "bench": "bench",
    "upstream-pr": "upstream",
    "engine": "engine",
    "wheel": "audit",
}
CORE = [name for name in cli._COMMANDS if name not in NEEDED]


def without(modules, *args, code=MAIN, folder=None):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, ",".join(modules), code, *args],
        cwd=folder,
        env=os.environ | {"VPATCH_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def refused(run, what, extra, *modules):
    assert run.stdout == ""
    assert run.stderr == (
        f"error: {what} needs the packages of the extra '{extra}', "
        f"and Python does not find {', '.join(modules)}\n"
        f"  next: pip install 'vpatch[{extra}]'\n"
    )
    assert run.returncode == 4


def test_no_module_is_left_of_those_that_are_hidden(tmp_path):
    code = f"""
import importlib
for name in {sorted(ALL)}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        print(name)
"""
    assert without(ALL, code=code, folder=tmp_path).stdout.split() == sorted(ALL)


def test_the_other_commands_and_the_api_import_no_extra(tmp_path):
    code = f"""
import json
import vpatch.api
import vpatch.output.commands
from vpatch import cli
print(json.dumps([cli.cli.get_command(None, name).name for name in {CORE}]))
"""
    run = without(ALL, code=code, folder=tmp_path)
    assert run.stderr == ""
    assert json.loads(run.stdout) == CORE


def test_the_commands_that_need_no_extra():
    assert {*CORE} == {
        *("apply", "status", "check", "diff", "list", "show", "schema", "test"),
        *("audit", "import", "new", "diagnose", "trust", "cache"),
        *("run", "install", "uninstall", "verify-env"),
        # These need one for some of what they do.
        *("bump", "checkpoint", "evidence", "upstream-status"),
    }


@pytest.mark.parametrize(("name", "extra"), NEEDED.items())
def test_a_command_says_the_extra_that_it_needs(name, extra, tmp_path):
    run = without(EXTRAS[extra], name, folder=tmp_path)
    refused(run, f"`vpatch {name}`", extra, *EXTRAS[extra])


@pytest.mark.parametrize("module", sorted(ALL))
def test_one_missing_package_is_enough(module, tmp_path):
    for name, extra in NEEDED.items():
        if module in EXTRAS[extra]:
            run = without([module], name, "--help", folder=tmp_path)
            refused(run, f"`vpatch {name}`", extra, module)


def test_the_page_shows_what_is_printed(tmp_path):
    marked = r"^```console\n\$ vpatch (.*)\n(.*\n.*\n)```"
    ((command, output),) = re.findall(marked, page("reference/extras.md"), re.MULTILINE)
    assert without(ALL, *command.split(), folder=tmp_path).stderr == output


def test_with_json_it_is_an_error_of_the_command(tmp_path):
    run = without(["docker"], "verify-image", "some:tag", "--json", folder=tmp_path)
    document = json.loads(run.stdout)
    (error,) = document["errors"]
    assert (document["command"], document["exit_code"]) == ("verify-image", 4)
    assert error["code"] == "util.missing-extra"


def test_a_package_that_cannot_be_imported_is_a_fault(tmp_path):
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "__init__.py").write_text("import no_such_module")
    code = f"sys.path.insert(0, {str(tmp_path)!r}); {MAIN}"
    run = without(ALL - {*EXTRAS["image"]}, "verify-image", "some:tag", code=code, folder=tmp_path)
    assert "ModuleNotFoundError: No module named 'no_such_module'" in run.stderr
    assert "this is a fault of vpatch" in run.stderr
    assert run.returncode == 3


def test_behaviour_tests_need_the_extra_engine(tmp_path):
    run = without(EXTRAS["engine"], "test", "mtp-proj-prefix", "--engine", "cpu", folder=tmp_path)
    refused(run, "`vpatch test --engine`", "engine", *EXTRAS["engine"])


def test_a_python_is_looked_at_without_an_extra(tmp_path):
    for words in (
        ["audit", "--python", sys.executable],
        ["install", "--vllm", "0.23.0", "--python", sys.executable],
        ["uninstall", "--python", sys.executable],
        ["verify-env", sys.executable],
    ):
        run = without(ALL, *words, folder=tmp_path)
        assert run.returncode == 2, run.stderr
        assert f"error: {sys.executable}: it has no vLLM\n" in run.stderr


@pytest.mark.parametrize("command", ["smoke", "bench"])
def test_a_run_in_an_image_needs_the_extra_image(command, tmp_path):
    run = without(["docker"], command, "--image", "some:tag", folder=tmp_path)
    refused(run, "a run in an image", "image", "docker")
    assert not (tmp_path / "evidence").exists()


def test_upstream_status_needs_the_extra_upstream_to_ask_github(tmp_path):
    run = without(["github"], "upstream-status", folder=tmp_path)
    refused(run, "`vpatch upstream-status` without --offline", "upstream", "github")


def test_a_graft_that_converts_needs_the_extra_checkpoint(tmp_path):
    head = {name: ("F32", shape) for name, (_, shape) in builders.mimo_head().items()}
    config = builders.config_of("MiMoForCausalLM")
    whole = builders.config_of("MiMoForCausalLM", num_nextn_predict_layers=1)
    builders.write_checkpoint(tmp_path / "target", config, builders.trunk())
    shards = {"a.safetensors": builders.trunk(), "b.safetensors": head}
    builders.write_checkpoint(tmp_path / "source", whole, shards)
    before = {path.name: path.read_bytes() for path in (tmp_path / "target").iterdir()}
    graft = ("checkpoint", "graft-mtp", "target", "--from", "source", "--as")
    run = without(EXTRAS["checkpoint"], *graft, "trunk", folder=tmp_path)
    refused(run, "a graft that converts tensors", "checkpoint", *EXTRAS["checkpoint"])
    assert {path.name: path.read_bytes() for path in (tmp_path / "target").iterdir()} == before
    run = without(ALL, *graft, "source", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "target" / "model-mtp.safetensors").is_file()


@pytest.mark.parametrize(
    ("function", "extra", "call"),
    [
        ("verify", "image", 'verify(context, "some:tag")'),
        ("smoke", "engine", "smoke(context)"),
        ("bench", "bench", "bench(context)"),
    ],
)
def test_the_api_says_the_extra_that_it_needs(function, extra, call, tmp_path):
    code = f"""
from vpatch import api
context = api.open_context()
try:
    api.{call}
except api.UnavailableError as error:
    print(error.code, error.what, sep="\\n")
"""
    run = without(EXTRAS[extra], code=code, folder=tmp_path)
    code, what = run.stdout.splitlines()
    assert code == "util.missing-extra"
    assert what.startswith(f"vpatch.api.{function} needs the packages of the extra '{extra}'")
