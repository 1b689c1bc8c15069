"""What works without the packages of the extras, and what says which extra it needs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

from tests.checkpoint import builders
from tests.documents import page
from tests.environments import bare_environment
from vpatch.registry import COMMANDS
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
MAIN = "from vpatch.main import main; main()"
# Runs command lines, each as if its modules were not installed, and prints how they ended.
SEVERAL = """
import io, json
from contextlib import redirect_stderr, redirect_stdout
from vpatch.main import main

ends = []
for modules, words in json.loads(sys.argv[1]):
    hidden.clear()
    hidden.update(modules)
    assert not hidden & sys.modules.keys()
    sys.argv[1:] = words
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            main()
        except SystemExit as end:
            ends.append([end.code, out.getvalue(), err.getvalue()])
print(json.dumps(ends))
"""
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
CORE = [name for name in COMMANDS if name not in NEEDED]


def without(modules, *args, code=MAIN, folder=None):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, ",".join(modules), code, *args],
        cwd=folder,
        env=os.environ | {"VPATCH_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def several(folder, *runs):
    """Run several command lines in one process: pairs of hidden modules, and of words."""
    run = without((), json.dumps(runs), code=SEVERAL, folder=folder)
    assert run.returncode == 0, run.stderr
    ends = [subprocess.CompletedProcess((), *end) for end in json.loads(run.stdout)]
    assert len(ends) == len(runs)
    return ends


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
import vpatch.registry
from vpatch import main as cli
print(json.dumps([cli.cli.get_command(None, name).name for name in {CORE}]))
"""
    run = without(ALL, code=code, folder=tmp_path)
    assert run.stderr == ""
    assert json.loads(run.stdout) == CORE


def test_these_commands_need_no_extra():
    assert {*CORE} >= {
        *("apply", "status", "check", "diff", "list", "show", "schema", "test"),
        *("audit", "import", "new", "diagnose", "trust", "cache"),
        *("run", "install", "uninstall", "verify-env"),
        # These need one for some of what they do.
        *("bump", "checkpoint", "evidence", "upstream-status"),
    }


def test_a_command_says_the_extra_that_it_needs(tmp_path):
    runs = several(tmp_path, *((EXTRAS[extra], [name]) for name, extra in NEEDED.items()))
    for run, (name, extra) in zip(runs, NEEDED.items(), strict=True):
        refused(run, f"`vpatch {name}`", extra, *EXTRAS[extra])


def test_one_missing_package_is_enough(tmp_path):
    each = [(name, extra, one) for name, extra in NEEDED.items() for one in EXTRAS[extra]]
    runs = several(tmp_path, *(([module], [name, "--help"]) for name, _, module in each))
    for run, (name, extra, module) in zip(runs, each, strict=True):
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


def test_a_python_is_looked_at_without_an_extra(tmp_path):
    python = str(bare_environment(tmp_path / "env").python)
    lines = (
        ["audit", "--python", python],
        ["install", "--vllm", "0.23.0", "--python", python],
        ["uninstall", "--python", python],
        ["verify-env", python],
    )
    for run in several(tmp_path, *((sorted(ALL), words) for words in lines)):
        assert run.returncode == 2, run.stderr
        assert f"error: {python}: it has no vLLM\n" in run.stderr


def test_what_needs_an_extra_for_some_of_what_it_does(tmp_path):
    engine = EXTRAS["engine"]
    behaviour, upstream, smoke, bench, status = several(
        tmp_path,
        (engine, ["test", "mtp-proj-prefix", "--engine", "cpu"]),
        (["github"], ["upstream-status"]),
        (["docker"], ["smoke", "--image", "some:tag"]),
        (["docker"], ["bench", "--image", "some:tag"]),
        (["docker"], ["status", "--vllm", "image:some:tag"]),
    )
    refused(status, "an image as a source", "image", "docker")
    refused(behaviour, "`vpatch test --engine`", "engine", *engine)
    refused(upstream, "`vpatch upstream-status` without --offline", "upstream", "github")
    for run in (smoke, bench):
        refused(run, "a run in an image", "image", "docker")
    assert not (tmp_path / "evidence").exists()


def test_a_graft_that_converts_needs_the_extra_checkpoint(tmp_path):
    head = {name: ("F32", shape) for name, (_, shape) in builders.mimo_head().items()}
    config = builders.config_of("MiMoForCausalLM")
    whole = builders.config_of("MiMoForCausalLM", num_nextn_predict_layers=1)
    builders.write_checkpoint(tmp_path / "target", config, builders.trunk())
    shards = {"a.safetensors": builders.trunk(), "b.safetensors": head}
    builders.write_checkpoint(tmp_path / "source", whole, shards)
    before = {path.name: path.read_bytes() for path in (tmp_path / "target").iterdir()}
    graft = ("checkpoint", "graft-mtp", "target", "--from", "source", "--tensor-format")
    run = without(EXTRAS["checkpoint"], *graft, "trunk", folder=tmp_path)
    refused(run, "a graft that converts tensors", "checkpoint", *EXTRAS["checkpoint"])
    assert {path.name: path.read_bytes() for path in (tmp_path / "target").iterdir()} == before
    run = without(ALL, *graft, "source", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "target" / "model-mtp.safetensors").is_file()


def test_the_api_says_the_extra_that_it_needs(tmp_path):
    code = """
import json
from vpatch import api
context = api.open_context()
for function, modules, words in json.loads(sys.argv[1]):
    hidden.clear()
    hidden.update(modules)
    assert not hidden & sys.modules.keys()
    try:
        getattr(api, function)(context, *words)
    except api.UnavailableError as error:
        print(error.code, error.what)
"""
    calls = {
        "verify": ("image", ["some:tag"]),
        "build_image": ("image", []),
        "plan_image": ("image", []),
        "wheel": ("audit", []),
        "smoke": ("engine", []),
        "bench": ("bench", []),
        "upstream_status": ("upstream", []),
    }
    each = [(name, EXTRAS[extra], words) for name, (extra, words) in calls.items()]
    run = without((), json.dumps(each), code=code, folder=tmp_path)
    assert run.stderr == ""
    for line, (name, (extra, _)) in zip(run.stdout.splitlines(), calls.items(), strict=True):
        needs = f"vpatch.api.{name} needs the packages of the extra '{extra}'"
        assert line.startswith(f"util.missing-extra {needs}")
