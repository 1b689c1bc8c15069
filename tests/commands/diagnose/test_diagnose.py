from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import pytest

from tests.projects import (
    ENGINE,
    FILES,
    LLAMA,
    NAME_PROJ,
    NAMED,
    NO_SUCH,
    SLOW_MODE,
    VERSION,
    archive,
    write_tree,
)
from vpatch.logs import vllm_format

LOG = Path(__file__).parents[2] / "resources" / "vllm-0.23.0-cpu-mtp.log"
CORE = "(EngineCore pid=7) INFO 11-21 08:00:00 [core.py:113] "
STARTED = f"{CORE}Initializing a V1 LLM engine (v{VERSION}) with config: model='m'\n"
CURED = {LLAMA: b"class Llama:\n    def __init__(self, prefix):\n" + NAMED}
FAILS = "(EngineCore pid=7) ERROR 11-21 08:00:01 [core.py:1195] RuntimeError: it fails\n"


@pytest.fixture
def log(empty):
    """A log of the small vLLM, in which the patch name-proj finds its symptom."""
    empty.patch("name-proj", NAME_PROJ)
    return write_log(empty, STARTED, FAILS, FAILS)


def write_log(project, *lines, name="engine.log"):
    (project.folder / name).write_text("".join(lines), encoding="utf-8")
    return name


def feed(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))


def test_a_symptom_that_the_version_needs_a_patch_for(empty, log):
    run = empty.run("diagnose", log, code=1)
    assert run.out == (
        "engine.log: 1 known symptom in 3 lines, of vLLM 0.50.0\n"
        "name-proj  [Bugfix] name-proj\n"
        "  line 2, 2 times in all: it fails\n"
        "  needed: vLLM 0.50.0 needs it\n"
        "    vpatch apply --vllm 0.50.0 --patch name-proj\n"
    )
    command = run.out.splitlines()[-1].split()
    applied = empty.run(*command[1:])
    assert "1 patch on the pristine tree" in applied.out


NO_DEVICE = "RuntimeError: Device string must not be empty\n"


def test_a_vllm_that_found_no_device(empty):
    warning = "WARNING 11-21 08:00:00 [x.py:1] libcuda.so.1: cannot open shared object file\n"
    log = write_log(empty, NO_DEVICE, warning, "ValueError: something else\n", NO_DEVICE)
    run = empty.run("diagnose", log, code=1)
    assert run.out.startswith(
        "engine.log:1: Device string must not be empty\n"
        "  vLLM found no device that it can run on: no GPU driver, and it is not a CPU build\n"
        "  next: on a machine without a GPU install a build for CPUs"
    )
    (found,) = empty.run("diagnose", log, "--json", code=1).json["explained"]
    assert (found["line"], found["message"]) == (1, "Device string must not be empty")


def test_what_explains_and_what_a_patch_cures_are_both_told(empty, log):
    with (empty.folder / log).open("a") as file:
        file.write(NO_DEVICE)
    out = empty.run("diagnose", log, code=1).out
    assert "vpatch apply --vllm 0.50.0 --patch name-proj\n" in out
    assert "engine.log:4: Device string must not be empty\n" in out


def test_a_patch_of_the_recipe(empty, log):
    (empty.folder / "recipes").mkdir()
    recipe = empty.folder / "recipes" / "vllm-0.50.yaml"
    recipe.write_text(f"vllm: {VERSION}\npatches: [name-proj]\n")
    run = empty.run("diagnose", log, code=1)
    assert "needs it, and the recipe vllm-0.50 has it\n    vpatch apply --vllm 0.50.0\n" in run.out


def test_a_recipe_without_the_patch(project, log):
    (project.folder / "recipes").mkdir()
    recipe = project.folder / "recipes" / "vllm-0.50.yaml"
    recipe.write_text(f"vllm: {VERSION}\npatches: [slow-mode]\n")
    run = project.run("diagnose", log, code=1)
    assert "    vpatch apply --vllm 0.50.0 --patch name-proj\n" in run.out
    assert "    vpatch apply --vllm 0.50.0\n" in run.out


def test_what_is_asked_for_goes_before_what_the_log_says(empty, log):
    empty.index.add("0.52.0", archive("0.52.0", CURED))
    run = empty.run("diagnose", log, "--vllm", "0.52", code=1)
    assert (
        "upstreamed: vLLM 0.52.0 has the cure already: this log must be of another one, and says "
        "0.50.0\n"
    ) in run.out
    assert "vpatch apply" not in run.out


def test_the_log_is_of_a_version_that_has_the_cure(empty, log):
    empty.index.add("0.52.0", archive("0.52.0", CURED))
    write_log(empty, STARTED.replace(VERSION, "0.52.0+cu129"), FAILS)
    run = empty.run("diagnose", log, code=1)
    assert "vLLM 0.52.0 has the cure already, so the message has another cause here" in run.out
    assert empty.run("diagnose", log, "--vllm", "0.52", code=1).out == run.out


def test_a_checkout_that_carries_the_patch(empty, log):
    empty.apply("--patch", "name-proj")
    write_log(empty, FAILS)
    run = empty.run("diagnose", log, "--vllm", f"./.vpatch/vllm-{VERSION}", code=1)
    carries = (
        "applied: vLLM 0.50.0 carries the patch, as its lock says: this log must be of another"
    )
    assert f"{carries} one\n" in run.out


def test_a_folder_without_the_code(empty, log):
    files = {path: FILES[path] for path in ("vllm/__init__.py", ENGINE)}
    files["vllm/version.py"] = b""
    write_tree(empty.folder / "my tree", files)
    run = empty.run("diagnose", log, "--vllm", "./my tree", code=1)
    assert "absent: vLLM ./my tree does not have what the patch is about: this log" in (run.out)


def test_a_conflict_and_a_patch_that_is_blocked(empty, log):
    empty.patch("tail", NO_SUCH)
    empty.patch("top", NAME_PROJ, more="requires: [tail]\n")
    run = empty.run("diagnose", log, "--patches-dir", "patches", code=1)
    why = "    vpatch status --vllm 0.50.0 --why {} --patches-dir patches\n"
    assert f"shape that the patch does not fit\n{why.format('tail')}" in run.out
    assert f"it requires tail, which is conflict\n{why.format('top')}" in run.out
    assert "    vpatch apply --vllm 0.50.0 --patch name-proj --patches-dir patches\n" in run.out


def test_each_patch_has_its_own_symptoms(empty, log):
    empty.patch("quiet", SLOW_MODE)
    file = empty.patch("loud", SLOW_MODE, more="requires: [quiet]\n") / "patch.yaml"
    for path, symptom in ((file, "loud"), (empty.patches / "quiet" / "patch.yaml", "quiet")):
        path.write_text(path.read_text().replace("it fails", f"it is {symptom}"))
    write_log(empty, STARTED, FAILS, "it is loud\n")
    found = empty.run("diagnose", log, "--json", code=1).json["found"]
    assert [(one["patch"], [s["symptom"] for s in one["symptoms"]]) for one in found] == [
        ("name-proj", ["it fails"]),
        ("loud", ["it is loud"]),
    ]


def test_a_folder_with_a_space(empty, log):
    write_tree(empty.folder / "my tree")
    run = empty.run("diagnose", log, "--vllm", "./my tree", code=1)
    assert "    vpatch apply --vllm './my tree' --patch name-proj\n" in run.out


def test_a_patch_on_request_says_why(empty, log):
    empty.patch("name-proj", NAME_PROJ, more="on-request: it is slow\n")
    run = empty.run("diagnose", log, code=1)
    assert "  on request only: it is slow\n    vpatch apply --vllm 0.50.0 --patch name" in run.out


def test_a_patch_for_a_plugin(empty, log):
    file = empty.patches / "name-proj" / "patch.yaml"
    text = file.read_text()
    file.write_text(text.replace('{vllm: ">=0.50"}', '{vllm-metax: ">=0.1", vllm-ascend: "<0"}'))
    ask = "  for vllm-metax ask vpatch status --tree vllm-metax==VERSION --patch name-proj\n"
    assert ask in empty.run("diagnose", log, code=1).out
    file.write_text(text.replace("}", ', vllm-metax: ">=0.1"}', 1))
    run = empty.run("diagnose", log, "--vllm", "0.51", code=1)
    assert "needed: vLLM 0.51.0 needs it\n" in run.out
    write_log(empty, FAILS)
    run = empty.run("diagnose", log, code=1)
    assert f"whether the vLLM of this log needs it is not known;{ask[1:]}" in run.out
    write_log(empty, STARTED, FAILS)
    file.write_text(text.replace('">=0.50"}', '"<0", vllm-metax: ">=0.1"}').replace("Llama", "No"))
    run = empty.run("diagnose", log, code=1)
    assert f"absent: vLLM 0.50.0 does not have what the patch is about;{ask[1:]}" in run.out


@pytest.mark.parametrize(
    ("versions", "note"),
    [
        ([], "the log does not say which vLLM wrote it: give --vllm VERSION\n"),
        (["0.50.0", "0.51.0"], "several vLLM wrote this log (0.50.0, 0.51.0): give --vllm"),
        (["0.50.1.dev3+g1b2c3d4"], "vLLM 0.50.1.dev3+g1b2c3d4 is a build and no release: give"),
        (["dev"], "vLLM dev is a build and no release: give --vllm"),
        (["0.77.0"], "what vLLM 0.77.0 needs cannot be told: the index has no release 0.77.0"),
    ],
)
def test_a_version_that_is_not_known(empty, log, versions, note):
    write_log(empty, *(STARTED.replace(VERSION, version) for version in versions), FAILS)
    run = empty.run("diagnose", log, code=1)
    assert "  whether the vLLM of this log needs it is not known\n" in run.out
    assert note in run.out
    assert empty.run("diagnose", log, "--vllm", VERSION, code=1).out.count("needs it\n") == 1


def test_builds_of_one_release_are_one_version(empty, log):
    write_log(empty, STARTED, STARTED, STARTED.replace(VERSION, f"{VERSION}+cpu"), FAILS)
    run = empty.run("diagnose", log, code=1)
    assert "in 4 lines, of vLLM 0.50.0, 0.50.0+cpu\n" in run.out
    assert "needed: vLLM 0.50.0 needs it" in run.out


def test_offline_tells_what_was_found(empty, log):
    run = empty.run("diagnose", log, "--offline", code=1)
    assert "line 2, 2 times in all: it fails" in run.out
    assert "what vLLM 0.50.0 needs cannot be told: " in run.out
    empty.run("status", "--vllm", VERSION, "--patch", "name-proj")
    assert "needed: vLLM 0.50.0" in empty.run("diagnose", log, "--offline", code=1).out


def test_a_log_with_nothing_known(empty, log):
    write_log(empty, STARTED, "all is well\n")
    run = empty.run("diagnose", log)
    assert run.out.startswith(
        "engine.log: nothing known in 2 lines; 5 symptoms of 3 patches were looked for\n"
    )
    assert empty.run("diagnose", log, "--json").json["looked_for"] == {"patches": 3, "symptoms": 5}


def test_diagnose_as_json(empty, log):
    document = empty.run("diagnose", log, "--json", code=1).json
    (found,) = document.pop("found")
    assert document == {
        "log": "engine.log",
        "lines": 3,
        "versions": ["0.50.0"],
        "note": None,
        "looked_for": {"patches": 3, "symptoms": 5},
        "explained": [],
    }
    assert found["patch"] == "name-proj"
    assert found["state"] == "needed"
    assert found["run"] == "vpatch apply --vllm 0.50.0 --patch name-proj"
    assert found["symptoms"] == [
        {"symptom": "it fails", "line": 2, "text": FAILS.strip(), "count": 2}
    ]


def test_standard_input(empty, log, monkeypatch):
    feed(monkeypatch, (empty.folder / log).read_bytes() + b"\xff\xfe")
    run = empty.run("diagnose", "-", code=1)
    assert run.out.startswith("standard input: 1 known symptom in 4 lines, of vLLM 0.50.0\n")


def test_the_log_of_a_real_failure(empty):
    run = empty.run("diagnose", LOG, "--offline", code=1)
    assert "1 known symptom in 81 lines, of vLLM 0.23.0\ncpu-spec-decode-fp64-gumbel" in run.out


@pytest.mark.parametrize(
    ("args", "what"),
    [
        ([], "missing argument 'LOGFILE'"),
        (["nowhere.log"], "nowhere.log: the log cannot be read: No such file or directory"),
        (["."], ".: the log cannot be read: Is a directory"),
        (["packed.gz"], "packed.gz: the log is packed, or in UTF-16"),
        (["wide.log"], "wide.log: the log is packed, or in UTF-16"),
        # Before any log is read.
        (["nowhere.log", "--vllm", "x/y"], "'x/y': there is no such folder"),
        (["engine.log", "--vllm", "0.77"], "the index has no final release 0.77 of vllm"),
    ],
)
def test_diagnose_used_wrongly(empty, log, args, what):
    assert log == "engine.log"
    (empty.folder / "packed.gz").write_bytes(gzip.compress(FAILS.encode()))
    (empty.folder / "wide.log").write_bytes(FAILS.encode("utf-16"))
    run = empty.run("diagnose", *args, code=2)
    assert what in run.err
    assert run.out == ""
    assert empty.run("diagnose", *args, "--json", code=2).json_errors


def test_packed_standard_input(empty, monkeypatch):
    feed(monkeypatch, gzip.compress(b"it fails"))
    run = empty.run("diagnose", "-", code=2)
    assert run.codes == ("logs.packed",)
    assert "standard input: the log is packed" in run.err


def test_a_log_of_very_many_versions(empty):
    lines = [
        STARTED.replace(f"(v{VERSION})", f"(v0.{number}.{'1' * 500})") for number in range(200)
    ]
    found = empty.run("diagnose", write_log(empty, *lines), "--json").json["versions"]
    assert len(found) == 20
    assert {len(version) for version in found} == {100}


def test_a_log_that_does_not_end(empty, monkeypatch):
    monkeypatch.setattr(vllm_format, "LARGEST", 10**6)
    run = empty.run("diagnose", "/dev/zero", code=2)
    assert run.codes == ("logs.unreadable",)
    assert run.errors == (
        "error: /dev/zero: the log cannot be read: it is larger than 0 GB\n"
        "  next: name a file with vLLM's output, or - for standard input\n"
    )
