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
from vpatch.logs.known_issues import known_issues

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
        "  line 2, 2 times in all: RuntimeError: it fails\n"
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
        "  vLLM found no device that this build, or a plugin, can run on\n"
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
    assert "line 2, 2 times in all: RuntimeError: it fails" in run.out
    assert "what vLLM 0.50.0 needs cannot be told: " in run.out
    empty.run("status", "--vllm", VERSION, "--patch", "name-proj")
    assert "needed: vLLM 0.50.0" in empty.run("diagnose", log, "--offline", code=1).out


def test_a_log_with_nothing_known(empty, log):
    write_log(empty, STARTED, "all is well\n")
    run = empty.run("diagnose", log)
    assert run.out.startswith("engine.log: nothing known in 2 lines; 4 symptoms of 3 patches, and ")
    looked_for = empty.run("diagnose", log, "--json").json["looked_for"]
    assert looked_for == {"patches": 3, "symptoms": 4, "known_issues": len(known_issues())}


def test_diagnose_as_json(empty, log):
    document = empty.run("diagnose", log, "--json", code=1).json
    (found,) = document.pop("found")
    facts = document.pop("facts")
    looked_for = document.pop("looked_for")
    assert document == {
        "log": "engine.log",
        "logs": [{"log": "engine.log", "lines": 3}],
        "lines": 3,
        "versions": ["0.50.0"],
        "note": None,
        "known_issues": [],
        "explained": [],
        "observations": [],
        "next": None,
    }
    assert (looked_for["patches"], looked_for["symptoms"]) == (3, 4)
    assert facts["model"] == "m"
    assert facts["last_error"]["message"] == "it fails"
    assert found["patch"] == "name-proj"
    assert found["certainty"] == "sure"
    assert found["state"] == "needed"
    assert found["run"] == "vpatch apply --vllm 0.50.0 --patch name-proj"
    assert found["symptoms"] == [
        {"symptom": "it fails", "log": log, "line": 2, "text": FAILS.strip(), "count": 2}
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
        ([], "missing argument 'LOGFILE...'"),
        (["nowhere.log"], "nowhere.log: the log cannot be read: No such file or directory"),
        (["nothing"], "nothing: the folder has no files"),
        (["packed.gz"], "packed.gz: the log is packed, so"),
        (["engine.log", "packed.gz"], "packed.gz: the log is packed, so"),
        # Before any log is read.
        (["nowhere.log", "--vllm", "x/y"], "'x/y': there is no such folder"),
        (["engine.log", "--vllm", "0.77"], "the index has no final release 0.77 of vllm"),
    ],
)
def test_diagnose_used_wrongly(empty, log, args, what):
    assert log == "engine.log"
    (empty.folder / "packed.gz").write_bytes(gzip.compress(FAILS.encode()))
    (empty.folder / "nothing").mkdir()
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


def test_a_general_message_is_one_cause_among_others(empty, log):
    file = empty.patches / "name-proj" / "patch.yaml"
    file.write_text(file.read_text().replace("it fails", "index out of range in self"))
    write_log(empty, STARTED, "IndexError: index out of range in self\n")
    run = empty.run("diagnose", log, code=1)
    assert (
        "  one cause among others: vLLM 0.50.0 has the defect that it cures\n"
        "    vpatch apply --vllm 0.50.0 --patch name-proj\n"
    ) in run.out
    assert "needed" not in run.out
    (found,) = empty.run("diagnose", log, "--json", code=1).json["found"]
    assert (found["certainty"], found["state"]) == ("one cause among others", "needed")


def test_what_a_tree_that_is_not_at_hand_needs_is_not_known(empty):
    run = empty.run("diagnose", LOG, "--offline", "--json", code=1).json
    assert [one["certainty"] for one in run["found"]] == ["unknown"]


RANKS = (("rank0.log", STARTED), ("rank9.log", "all is well\n"), ("rank10.log", FAILS))


@pytest.mark.usefixtures("log")
def test_several_logs_are_of_one_vllm(empty):
    (empty.folder / "run").mkdir()
    for name, text in RANKS:
        write_log(empty, text, name=f"run/{name}")
    run = empty.run("diagnose", "run/rank0.log", "run/rank9.log", "run/rank10.log", code=1)
    assert run.out == (
        "3 logs: 1 known symptom in 3 lines, of vLLM 0.50.0\n"
        "name-proj  [Bugfix] name-proj\n"
        "  run/rank10.log:1: RuntimeError: it fails\n"
        "  needed: vLLM 0.50.0 needs it\n"
        "    vpatch apply --vllm 0.50.0 --patch name-proj\n"
    )
    assert empty.run("diagnose", "run", code=1).out == run.out
    logs = empty.run("diagnose", "run", "--json", code=1).json["logs"]
    assert [one["log"] for one in logs] == [f"run/{name}" for name, _ in RANKS]


def test_utf_16_with_and_without_a_mark(empty, log):
    text = STARTED + FAILS
    expected = empty.run("diagnose", write_log(empty, text), code=1).out
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        (empty.folder / log).write_bytes(text.encode(encoding))
        assert empty.run("diagnose", log, code=1).out == expected


def test_the_first_error_comes_first(empty, log):
    first = "ValueError: Failed to find a kernel that can implement the WNA16 linear layer.\n"
    write_log(empty, STARTED, first, FAILS, "libfoo.so.3: cannot open shared object file\n")
    out = empty.run("diagnose", log, code=1).out
    assert out.index("wna16-no-kernel") < out.index("name-proj") < out.index("libfoo.so.3")


METRICS = (
    "(APIServer pid=1) INFO 05-06 06:11:23 [metrics.py:101] SpecDecoding metrics: Mean acceptance "
    "length: 1.03, Accepted throughput: 2.50 tokens/s, Drafted throughput: 3.14 tokens/s, "
    "Accepted: {} tokens, Drafted: {} tokens, Per-position acceptance rate: {}, "
    "Avg Draft acceptance rate: {}%\n"
)


def test_the_course_of_the_acceptance(empty, log):
    good = [METRICS.format(800, 1000, "0.900, 0.700", 80.0)] * 10
    bad = [METRICS.format(100, 1000, "0.150, 0.050", 10.0)] * 10
    write_log(empty, *good, *bad)
    out = empty.run("diagnose", log, code=1).out
    assert (
        "acceptance  45.0 % of the drafted tokens were accepted in 20 reports, lines 1 to 20, and "
        "fewer with time: 80.0 % at first, 10.0 % at last\n"
    ) in out
    write_log(empty, *good)
    assert empty.run("diagnose", log, "--json").json["observations"] == []


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (METRICS.format(1200, 1000, "0.900, 0.700", 120.0), "1200 of 1000 drafted tokens were"),
        (METRICS.format(-3, 1000, "0.900, 0.700", -0.3), "-3 of 1000 drafted tokens were"),
        (METRICS.format(800, 1000, "0.700, 0.900", 80.0), "a later position of the drafts was"),
        (METRICS.format(800, 1000, "1.700, 0.900", 80.0), "an acceptance is not between 0 and 1"),
    ],
)
def test_impossible_counters(empty, log, line, what):
    write_log(empty, METRICS.format(800, 1000, "0.900, 0.700", 80.0), line)
    (seen,) = empty.run("diagnose", log, "--json", code=1).json["observations"]
    assert (seen["kind"], seen["line"]) == ("counter", 2)
    assert seen["what"].startswith(what)
    write_log(empty, *[line] * 600)
    (seen,) = empty.run("diagnose", log, "--json", code=1).json["observations"][-1:]
    assert seen["count"] == 600


@pytest.mark.parametrize("cut", ["na", "0.5.", "-", "0.700, 0.", "1"])
def test_metrics_of_a_line_that_was_cut(empty, log, cut):
    whole = METRICS.format(800, 1000, "0.900, 0.700", 80.0)
    write_log(empty, whole, whole.partition("0.900")[0] + "0.900, " + cut)
    assert empty.run("diagnose", log, "--json").json["observations"] == []


def test_one_minute_of_waiting_is_usual(empty, log):
    waits = (
        "(EngineCore_DP0 pid=7) INFO 05-28 14:45:27 [shm_broadcast.py:681] No available shared "
        "memory broadcast block found in 60 seconds.\n"
    )
    write_log(empty, waits)
    assert empty.run("diagnose", log, "--json").json["observations"] == []
    write_log(empty, STARTED, waits, waits)
    (seen,) = empty.run("diagnose", log, "--json", code=1).json["observations"]
    what = "a process waited since 05-28 14:45:27 for another one that did not answer: 2 times"
    assert (seen["line"], seen["count"], seen["what"]) == (2, 2, what)


def test_what_a_log_tells_of_its_vllm(empty, log):
    config = (
        "Initializing a V1 LLM engine (v0.50.0) with config: model='/m/big', speculative_config="
        "SpeculativeConfig(method='mtp', model='/m/draft', num_spec_tokens=2), "
        "quantization=compressed-tensors, device_config=cuda\n"
    )
    frames = [
        'File "/x/site-packages/vllm/a.py", line 3, in load\n',
        'File "/x/site-packages/torch/b.py", line 40, in run\n',
    ]
    wrapped = [f"(EngineCore pid=7) ERROR 11-21 08:00:01 [core.py:1195]   {one}" for one in frames]
    follows = "RuntimeError: Engine core initialization failed. See root cause above.\n"
    failed = "(EngineCore pid=7) ERROR 11-21 08:00:01 [core.py:1195] TypeError: odd\n"
    write_log(empty, "Resolved architecture: Big\n", config, *wrapped, failed, follows)
    facts = empty.run("diagnose", log, "--json").json["facts"]
    error = facts.pop("first_error")
    assert facts.pop("last_error") == error
    assert (error["kind"], error["message"], error["line"]) == ("TypeError", "odd", 5)
    assert error["frames"] == ["vllm/a.py:3 load", "torch/b.py:40 run"]
    assert facts == {
        "versions": ["0.50.0"],
        "platform": "cuda",
        "model": "/m/big",
        "architectures": ["Big"],
        "speculates": True,
        "speculation": "method='mtp', model='/m/draft', num_spec_tokens=2",
        "draft": "/m/draft",
        "quantization": "compressed-tensors",
        "cuda": [],
    }
