"""vpatch bench, with a vLLM of a few lines; the counters are what its construction predicts."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
from pathlib import Path

import pytest
import trustme

from tests.commands.bench.fakes import serving
from tests.commands.bench.records import record as built_record
from vpatch import api
from vpatch.commands.bench.load import send
from vpatch.commands.bench.record import read_record, text_of
from vpatch.commands.bench.usecase import BenchOptions
from vpatch.errors import VpatchError
from vpatch.harness.predict import Counters

pytestmark = pytest.mark.slow

PLAN = """
bench:
  models: {given: {checkpoint: MODEL}}
  shapes: [{input: 8, output: 7}]
  concurrency: [1, 2]
  prompts: 2
  repeats: 1
  warm-up: false
  flags: {max-model-len: 64}
  timeouts: {start: 600, token: 600, cell: 600, stop: 600}
  cells:
    - {model: given, k: [0, 2]}
"""
TREE = ("--vllm", "0.50", "--engine", sys.executable)


@pytest.fixture
def benched_with_plots(smoked):
    checkpoint = str(smoked.folder / "model")
    smoked.recipe.write_text(smoked.recipe.read_text() + PLAN.replace("MODEL", checkpoint))
    return smoked


@pytest.fixture
def benched(benched_with_plots, monkeypatch):
    """A project with a benchmark plan. Its pages have no plots: they take longer than the loads."""
    monkeypatch.setattr("vpatch.commands.bench.report.page.plots_of", lambda _: [])
    return benched_with_plots


def bench(project, *args, **options):
    return project.run("bench", *(args or TREE), "--name", "one", **options)


def say(project, **keys):
    """Change what the plan says."""
    before, mark, plan = project.recipe.read_text().partition("\nbench:\n")
    for name, value in keys.items():
        line = f"  {name.replace('_', '-')}: {value}\n"
        found = re.sub(rf"(?m)^  {name.replace('_', '-')}:.*\n(   .*\n)*", line, plan)
        plan = found if found != plan else line + plan
    project.recipe.write_text(before + mark + plan)


def fail_with(project, fault):
    say(project, environment=f"{{FAKE_FAULT: {fault}}}")


def say_one_load(project):
    """Let the plan have one server with one load."""
    say(project, concurrency="[1]", cells="[{model: given, k: [2]}]")


def store(project, name, **keys):
    """Write a record that nobody measured; `keys` are those of `tests.commands.bench.records`."""
    changed = {key: keys.pop(key) for key in ("flags", "prompts") if key in keys}
    record = built_record(**keys) | {"name": name}
    record["plan"] |= changed
    for point in record["points"]:
        point["prompts"] = record["plan"]["prompts"]
    folder = project.folder / "bench" / name
    folder.mkdir(parents=True)
    (folder / "bench.json").write_text(json.dumps(record))


def record_of(project, name="one"):
    folder = project.folder / "bench" / name
    text = (folder / "bench.json").read_text()
    # What is written is what the model says, in the order of all files.
    assert text_of(read_record(folder)) == text
    return json.loads(text)


def files_of(project):
    folder = project.folder / "bench" / "one"
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_a_run_and_its_record(benched_with_plots):
    benched = benched_with_plots
    before = {path: path.read_bytes() for path in benched.site.rglob("*.py")}
    run = bench(benched)
    lines = run.out.splitlines()
    assert re.match(
        r"given k=0 8/7 c=1 #1 +\d+\.\d tok/s, TTFT \d+\.\d ms, TPOT \d+\.\d\d", lines[0]
    )
    assert lines[3].endswith(", acceptance 1.000")
    assert "4 of 4 runs measured; record: bench/one" in lines[-1]
    assert "4 of 4: given k=2, starting\n" in run.err
    assert "4 of 4: given k=2, 8/7 c=2\n" in run.err
    cells = ["001-given-k-0", "002-given-k-0", "003-given-k-2", "004-given-k-2"]
    loads = [f"{cell}-8-7-c-{1 + n % 2}" for n, cell in enumerate(cells)]
    assert files_of(benched) == {
        *("bench.json", "report.md", "report.html", "results.csv"),
        *(f"logs/{cell}-server.log" for cell in cells),
        *(f"logs/{load}.log" for load in loads),
        *(f"raw/{load}.json" for load in loads),
    }
    record = record_of(benched)
    (side,) = record["sides"]
    alone = benched.run("bench", "compare", "bench/one", code=2)
    assert alone.codes == ("cli.missing-option",)
    assert (side["name"], side["what"]) == ("", "vLLM 0.50.0 with 1 patch")
    assert [patch["id"] for patch in side["subject"][0]["patches"]] == ["strength"]
    assert side["engine"] == {"kind": "cpu", "vllm": "0.50.0"}
    assert record["client"] == {"vllm": "0.50.0"}
    assert record["models"]["given"]["model"] == str(benched.folder / "model")
    assert record["asked"] == {"vllm": "0.50", "engine": sys.executable}
    for point in record["points"]:
        requests = 2 * point["concurrency"]
        drafts = 2 * requests if point["k"] else 0
        counters = Counters(drafts, 2 * drafts, 2 * drafts, (drafts,) * point["k"])
        found = point["measured"]["counters"]
        assert Counters(**found | {"per_position": tuple(found["per_position"])}) == counters
        assert point["measured"]["output_tokens"] == 7 * requests
        assert point["fault"] is None
    folder = benched.folder / "bench" / "one"
    for cell in cells:
        log = (folder / "logs" / f"{cell}-server.log").read_text()
        assert "strength 2\n" in log
        assert log.endswith("asked to end\n")
    assert "not judged" in (folder / "report.md").read_text()
    page = (folder / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert 'aria-label="Acceptance rate over k, given, 8/7"' in page
    assert len((folder / "results.csv").read_text().splitlines()) == 5
    assert before == {path: path.read_bytes() for path in benched.site.rglob("*.py")}


def test_one_server_for_all_loads_of_a_cell(benched):
    say(benched, share_server="true", repeats="2")
    bench(benched)
    servers = [name for name in files_of(benched) if name.endswith("-server.log")]
    assert len(servers) == 4
    places = [
        (point["k"], point["concurrency"], point["repeat"])
        for point in record_of(benched)["points"]
    ]
    assert places == [
        *((0, 1, 0), (0, 2, 0), (2, 1, 0), (2, 2, 0)),
        *((2, 2, 1), (2, 1, 1), (0, 2, 1), (0, 1, 1)),
    ]


def test_a_warm_up_counts_for_nothing(benched):
    say(benched, warm_up="true", share_server="true")
    bench(benched)
    assert "logs/002-given-k-2-warm-up.log" in files_of(benched)
    assert not [name for name in files_of(benched) if "warm-up.json" in name]
    drafts = [point["measured"]["counters"]["drafts"] for point in record_of(benched)["points"]]
    assert drafts == [0, 0, 4, 8]


def test_two_trees_in_alternating_order(benched):
    say_one_load(benched)
    say(benched, repeats="3")
    args = ("--compare", "0.50,pristine:0.50", "--engine", sys.executable)
    run = bench(benched, *args)
    assert "How many times as much as A, and whether that is more than noise:" in run.out
    record = record_of(benched)
    ours, pristine = record["sides"]
    assert (ours["what"], pristine["what"]) == (
        "vLLM 0.50.0 with 1 patch",
        "vLLM 0.50.0 with no patches",
    )
    assert ours["digest"] != pristine["digest"]
    # With more than one k, tests/commands/bench/test_cells.py knows the order.
    sides = [(point["repeat"], point["side"]) for point in record["points"]]
    assert sides == [(0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (2, 1)]
    logs = benched.folder / "bench" / "one" / "logs"
    for log in logs.glob("*-server.log"):
        strength = 2 if re.match(r"\d+-A-", log.name) else 1
        assert f"strength {strength}\n" in log.read_text()
    (row,) = (
        line for line in run.out.splitlines() if re.match(r"\| given .* 2 \| B +\| [\d.]+x", line)
    )
    assert "not judged" not in row


def test_the_pristine_release_before_a_recipe(benched):
    say_one_load(benched)
    args = ("--recipe", benched.recipe.stem, "--engine", sys.executable, "--before")
    bench(benched, *args)
    record = record_of(benched)
    assert [side["what"] for side in record["sides"]] == [
        "vLLM 0.50.0 with no patches",
        "vLLM 0.50.0 with 1 patch",
    ]
    assert record["asked"]["before"] is True


def test_servers_that_run(benched, tmp_path):
    """Each has its own k; the model's files are where they say."""
    root = str(benched.folder / "model")
    with (
        serving(tmp_path, 0, model=root) as (plain, _),
        serving(tmp_path, 2, model=root) as (two, _),
    ):
        urls = [word for target in (two, plain) for word in ("--url", target.client.url)]
        args = ("--recipe", "vllm-0.50", "--engine", sys.executable)
        run = bench(benched, *urls, *args)
        again = benched.run("bench", *urls, *args, "--concurrency", "2", "--name", "two", "--json")
        args = ("--compare", f"{plain.client.url}/v1,{two.client.url}/", *args)
        args += ("--concurrency", "1")
        compared = benched.run("bench", *args, "--name", "three", "--repeats", "3")
    assert "4 of 4 runs measured" in run.out
    record = record_of(benched)
    assert [(point["k"], point["concurrency"]) for point in record["points"]] == [
        *((0, 1), (0, 2)),
        *((2, 1), (2, 2)),
    ]
    (side,) = record["sides"]
    assert side["what"] == f"{plain.client.url}, {two.client.url}"
    assert [(one["k"], one["vllm"], one["root"]) for one in side["servers"]] == [
        (2, "0.50.0", root),
        (0, "0.50.0", root),
    ]
    # What they were started with, and from which bytes, is not known.
    assert not {"flags", "environment", "method", "tensor-parallel"} & record["plan"].keys()
    assert record["models"] == {"model": {"model": root, "digest": None}}
    # A server that was there before may have the first run's prompts in its cache.
    seeds = [
        {point["seed"] for point in found["points"]} for found in (record, again.json["record"])
    ]
    assert not seeds[0] & seeds[1]
    assert again.json["record"]["points"][1]["measured"]["counters"]["drafts"] == 8
    record = record_of(benched, "three")
    assert [side["what"] for side in record["sides"]] == [plain.client.url, two.client.url]
    assert {(point["side"], point["k"]) for point in record["points"]} == {(0, 0), (1, 2)}
    row = next(
        line
        for line in compared.out.splitlines()
        if re.match(r"\| model .* \| B +\| [\d.]+x", line)
    )
    assert "not judged" not in row


def test_a_plan_of_the_command_line(benched):
    benched.recipe.write_text(benched.recipe.read_text().partition("\nbench:")[0] + "\n")
    args = (
        "--model",
        "./model",
        "--shape",
        "4/3",
        "--k",
        "0..1",
        "--concurrency",
        "1",
        "--prompts",
    )
    bench(benched, *TREE, *args, "1", "--repeats", "2")
    record = record_of(benched)
    assert list(record["models"]) == ["model"]
    places = {(p["k"], p["shape"], p["prompts"], p["repeat"]) for p in record["points"]}
    assert places == {(k, "4/3", 1, repeat) for k in (0, 1) for repeat in (0, 1)}


def test_a_recipe_in_a_file_of_its_own(benched):
    say(benched, concurrency="[1]")
    benched.recipe.rename(benched.folder / "mine.yaml")
    bench(benched, "--recipe", "./mine.yaml", "--engine", sys.executable, "--trust")
    assert {point["k"] for point in record_of(benched)["points"]} == {0, 2}


def test_options_stand_for_the_plan(benched):
    bench(benched, *TREE, "--k", "1", "--concurrency", "3", "--shape", "5/6")
    (point,) = record_of(benched)["points"]
    assert (point["k"], point["concurrency"], point["shape"]) == (1, 3, "5/6")
    assert point["model"] == "given"


def test_options_that_make_no_plan(benched):
    run = bench(benched, *TREE, "--shape", "5/6", "--shape", "5/6", code=2)
    said = "shapes has a value twice; for more runs give repeats\n  next: correct the options\n"
    assert run.err.endswith(f"error: {said}")


@pytest.mark.parametrize(
    ("fault", "said", "runs"),
    [
        ("crash while loading", "does not start: the server ended with 1", 2),
        ("killed", "crashed: the server ended with 1 (a worker died: EngineDead", 2),
        ("client dies", "crashed: vllm bench serve ended with 1", 2),
        ("tampers", "tampered with: vllm/layer.py: the patched file is sha256:", 2),
    ],
)
def test_what_could_not_be_measured(benched, fault, said, runs):
    say(benched, concurrency="[1]", repeats="2", cells="[{model: given, k: [2]}]")
    fail_with(benched, fault)
    run = bench(benched, code=1)
    assert f"0 of {runs} runs measured" in run.out
    assert said in run.out
    record = record_of(benched)
    assert all(point["measured"] is None for point in record["points"])
    report = (benched.folder / "bench" / "one" / "report.md").read_text()
    assert "### Not measured" in report
    again = record["points"][1]["fault"]
    servers = [name for name in files_of(benched) if name.endswith("-server.log")]
    if fault == "crash while loading":
        assert (again["kind"], len(servers)) == ("not run", 1)
        assert again["what"] == "it did not start before: the server ended with 1"
    else:
        assert len(servers) == 2


def test_a_server_that_dies_takes_its_other_loads_along(benched):
    say(benched, share_server="true", warm_up="true")
    fail_with(benched, "killed")
    run = bench(benched, code=1)
    assert "crashed: while warming up: the server ended with 1" in run.out
    say(benched, warm_up="false")
    run = benched.run("bench", *TREE, "--name", "two", code=1)
    kinds = [point["fault"]["kind"] for point in record_of(benched, "two")["points"]]
    assert kinds == ["crashed", "not run"] * 2
    assert "not run: the server had ended" in run.out


def test_a_port_that_is_in_use(benched):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        run = bench(benched, *TREE, "--port", port, code=1)
    assert run.out.count(f"not run: port {port} is in use on this machine") == 4


@pytest.mark.usefixtures("rooms")
def test_a_folder_that_is_none(benched):
    run = bench(benched, *TREE, "--output-dir", "/proc/nope", code=2)
    assert "/proc/nope: a benchmark cannot be written: No such file" in run.err
    assert run.codes == ("util.bad-path",)
    run = bench(benched, *TREE, "--output-dir", str(benched.recipe), code=2)
    assert "a benchmark cannot be written: Not a directory" in run.err


@pytest.mark.usefixtures("rooms")
@pytest.mark.parametrize(
    ("raised", "code"), [(OSError(28, "No space left on device"), 4), (VpatchError("gone"), 1)]
)
def test_what_was_measured_when_it_breaks_off_is_kept(benched, monkeypatch, raised, code):
    sent = []

    def failing(*args):
        sent.append(args)
        if len(sent) == 3:
            raise raised
        return send(*args)

    monkeypatch.setattr("vpatch.commands.bench.measure.send", failing)
    run = bench(benched, code=code)
    assert str(raised) in run.err
    record = record_of(benched)
    assert (len(record["points"]), record["planned"]) == (2, 4)
    report = (benched.folder / "bench" / "one" / "report.md").read_text()
    assert "- **it was interrupted after 2 of 4 runs**" in report


def test_a_report_that_cannot_be_made_costs_no_record(benched, monkeypatch):
    def broken(_):
        raise ZeroDivisionError

    say_one_load(benched)
    monkeypatch.setattr("vpatch.commands.bench.run.report_of", broken)
    bench(benched, code=3)
    assert len(record_of(benched)["points"]) == 1


def test_a_disk_that_is_full(benched, small_disk):
    run = bench(benched, *TREE, "--output-dir", small_disk, code=4)
    assert run.codes == ("bench.could-not-run",)
    assert "the benchmark could not be made: [Errno 28] No space left on device" in run.err
    assert "next: free space there" in run.err
    assert list(small_disk.iterdir()) == []


def test_a_page_that_cannot_be_written(benched, small_disk, monkeypatch):
    """Of the page nothing is left."""
    monkeypatch.setattr(
        "vpatch.commands.bench.run.page_of", lambda _: "more than there is room for" * 1000
    )
    store(benched, "one", ks=(0,), concurrency=(1,), repeats=1)
    pair = ("bench", "compare", "bench/one", "bench/one")
    run = benched.run(*pair, "--output", small_disk / "both.html", code=4)
    assert run.codes == ("util.cannot-write",)
    assert f"{small_disk}/both.html: the page cannot be written: No space left" in run.err
    assert list(small_disk.iterdir()) == []
    run = benched.run(*pair, "--output", "no/such/folder.html", code=2)
    assert run.codes == ("util.bad-path",)
    assert "no/such/folder.html: the page cannot be written: No such file" in run.err
    run = benched.run("bench", "compare", *["bench/one"] * 27, code=2)
    assert run.codes == ("bench.too-many-records",)


@pytest.mark.usefixtures("rooms")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(benched, ending):
    fail_with(benched, "client hangs")
    once = "bench/.*.partial/logs/*c-1.log"
    run = benched.interrupted("bench", *TREE, once=once, ending=ending, settle=0.5)
    assert "interrupted; nothing was left half done" in run.err
    assert list((benched.folder / "bench").iterdir()) == []


@pytest.mark.usefixtures("rooms")
def test_what_was_measured_when_it_is_interrupted_is_kept(benched):
    """A machine that was lent for hours may be taken away with SIGTERM."""
    say(benched, repeats="9", share_server="true")
    args = ("bench", *TREE, "--name", "one")
    once = "bench/.*.partial/raw/002-*c-1.json"
    run = benched.interrupted(*args, once=once, ending=signal.SIGTERM)
    assert run.err.endswith("interrupted; what was measured is kept\n")
    record = record_of(benched)
    assert record["planned"] == 36
    assert 2 <= len(record["points"]) < 36
    assert all(point["measured"] for point in record["points"])
    said = f"it was interrupted after {len(record['points'])} of 36 runs"
    for name in ("report.md", "report.html"):
        assert said in (benched.folder / "bench" / "one" / name).read_text()
    assert f"{len(record['points'])} of 36 runs measured" in run.out


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ((*TREE, "--k", "two"), "cli.bad-value", "--k: 'two' is not a list of numbers\n  next: "),
        ((*TREE, "--k", "0..999999"), "cli.bad-value", "'0..999999' is not a list of numbers"),
        ((*TREE, "--k", "1,1"), "cli.bad-value", "--k: '1,1' has a number below 0, or one twice"),
        ((*TREE, "--concurrency", "0"), "cli.bad-value", "--concurrency: '0' has a number below 1"),
        ((*TREE, "--shape", "12"), "cli.bad-value", "--shape: '12' is not a shape"),
        ((*TREE, "--shape", "8/1"), "cli.bad-value", "--shape: '8/1' is not a shape"),
        ((*TREE, "--shape", "1/2", "--shape", "1/2"), "cli.bad-value", "has a value twice"),
        ((*TREE, "--name", "../x"), "evidence.bad-name", "'../x' cannot be a name of a benchmark"),
        ((*TREE, "--name", "x" * 300), "evidence.bad-name", "cannot be a name of a benchmark"),
        ((*TREE, "--compare", "0.50,0.50"), "cli.unused-option", "no effect with --compare"),
        (("--compare", "0.50"), "cli.bad-value", "--compare: '0.50' does not name two sides"),
        (("--compare", "0.50,image:x"), "cli.bad-value", "does not name two sides"),
        (("--compare", "http://a,0.50"), "cli.bad-value", "does not name two sides"),
        (("--compare", "http://a,http://a"), "cli.bad-value", "both sides are the same"),
        (("--image", "x", "--url", "http://a"), "cli.conflicting-options", "--image and --url"),
        ((*TREE[2:], "--before", "--compare", "0.50,0.51"), "cli.unused-option", "--before would"),
        (("--image", "x", "--before"), "cli.unused-option", "--before would have no effect"),
        (("--url", "http://a", "--before"), "cli.unused-option", "--before would have no effect"),
        (("--image", "x", "--vllm", "0.50"), "cli.unused-option", "x: --vllm would have no effect"),
        (("--image", "x", "--engine", "cpu"), "cli.unused-option", "--engine would have no effect"),
        (("--url", "http://a", "--tree", "x==1"), "cli.unused-option", "--tree would have no"),
        (("--url", "http://a", "--patch", "x", "--port", "7"), "cli.unused-option", "and --port"),
        (("--k", "0", "--json", "compare", "a", "b"), "cli.unused-option", "before compare"),
        (("--url", "http://127.0.0.1:9"), "bench.server-unreachable", "http://127.0.0.1:9: the"),
        (("--url", "http://me:hidden@127.0.0.1:9"), "bench.bad-url", "written into the record"),
        (("--url", "http://a/?token=hidden"), "bench.bad-url", "http://a: an address with"),
        (
            ("--compare", "http://me:hidden@a:1,http://b"),
            "bench.bad-url",
            "written into the record",
        ),
        (("--url", "localhost:8000"), "bench.bad-url", "'localhost:8000' is not the address"),
        (("--url", "http://[::1"), "bench.bad-url", "is not the address of a server"),
        ((), "cli.missing-option", "no option says which vLLM to use"),
        (
            (*TREE, "--plan", "bare"),
            "cli.missing-option",
            "the recipe bare has no benchmark plan",
        ),
    ],
)
def test_what_cannot_be_asked_for(benched, args, code, said):
    benched.recipe.with_name("bare.yaml").write_text("vllm: 0.50.0\npatches: [strength]\n")
    run = benched.run("bench", *args, code=4 if code == "bench.server-unreachable" else 2)
    assert run.codes == (code,)
    assert said in run.err
    assert "hidden" not in run.out + run.err
    assert not (benched.folder / "bench").exists()


def test_prompts_from_a_file(benched, monkeypatch):
    """What is not there is said before anything starts."""
    say_one_load(benched)
    say(benched, shapes="[{dataset: custom, path: mixed.jsonl, output: 7}]")
    run = bench(benched, code=2)
    assert run.codes == ("bench.no-dataset",)
    assert "mixed.jsonl: the dataset cannot be read: No such file" in run.err
    (benched.folder / "mixed.jsonl").write_text("{}\n")
    monkeypatch.setattr("vpatch.commands.bench.run._READER", "no_such_module")
    run = bench(benched, code=2)
    assert "cannot read prompts from a file: no_such_module is not installed" in run.err
    assert run.codes == ("bench.missing-package",)
    assert f"next: install it: {sys.executable} -m pip install no_such_module" in run.err
    assert list((benched.folder / "bench").iterdir()) == []
    monkeypatch.setattr("vpatch.commands.bench.run._READER", "json")
    bench(benched)
    record = record_of(benched)
    assert list(record["datasets"]) == ["mixed/7"]
    assert {point["shape"] for point in record["points"]} == {"mixed/7"}


def test_a_checkpoint_that_is_not_there(benched):
    run = bench(benched, *TREE, "--model", "./other", code=2)
    assert "./other: there is no such folder" in run.err


def test_servers_of_two_models(benched, tmp_path):
    """What one does says nothing of the other."""
    with (
        serving(tmp_path, 0, model="/models/one") as (one, _),
        serving(tmp_path, 2, model="/models/two") as (other, _),
    ):
        urls = one.client.url, other.client.url
        run = bench(benched, "--url", urls[0], "--url", urls[1], code=2)
        assert f"it serves /models/two, and {urls[0]} serves /models/one" in run.err
        run = bench(benched, "--compare", ",".join(urls), code=2)
        assert run.codes == ("bench.different-models",)
        assert f"it serves /models/two, and {urls[0]} serves /models/one" in run.err


def test_a_server_elsewhere_needs_only_a_tokenizer_here(benched, tmp_path, monkeypatch):
    """Its GPUs are its own, and so is what it was made from."""
    say(benched, needs="{gpus: 8}")
    # A proxy would be measured, if it let anything through at all.
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    args = ("--recipe", "vllm-0.50", "--engine", sys.executable)
    with serving(tmp_path, 2, model="/elsewhere/model") as (target, _):
        run = bench(benched, "--url", target.client.url, *args, code=2)
        assert "its model is not on this machine: there is no such folder" in run.err
        assert run.codes == ("bench.no-tokenizer",)
        assert "next: give --model PATH|ID" in run.err
        bench(benched, "--url", target.client.url, *args, "--model", "./model")
    assert record_of(benched)["models"]["model"] == {"model": "/elsewhere/model", "digest": None}


def test_a_server_with_a_key(benched, tmp_path, monkeypatch):
    """The key reaches vLLM's own sender as well, and is written nowhere."""
    monkeypatch.setenv("FAKE_KEY", "sk-hidden")
    with serving(tmp_path, 0, model=str(benched.folder / "model")) as (target, _):
        monkeypatch.delenv("FAKE_KEY")
        args = ("--url", target.client.url, "--recipe", "vllm-0.50", "--engine", sys.executable)
        run = bench(benched, *args, code=1)
        assert "/v1/models answered 401" in run.err
        monkeypatch.setenv("OPENAI_API_KEY", "sk-hidden")
        run = bench(benched, *args)
    assert "2 of 2 runs measured" in run.out
    written = [p for p in (benched.folder / "bench").rglob("*") if p.is_file()]
    assert len(written) > 6
    assert not [path for path in written if b"sk-hidden" in path.read_bytes()]


def test_a_server_behind_an_authority_of_ones_own(benched, tmp_path, monkeypatch):
    """What vpatch trusts is what vLLM's own sender trusts."""
    args = ("--recipe", "vllm-0.50", "--engine", sys.executable)
    authority, file = trustme.CA(), tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(file)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    model = str(benched.folder / "model")
    with serving(tmp_path, 2, model=model, authority=authority) as (target, _):
        url = target.client.url
        assert url.startswith("https://")
        # The loads are sent from another folder.
        for none in ("/nowhere.pem", os.path.relpath(file, benched.folder)):
            monkeypatch.setenv("SSL_CERT_FILE", none)
            run = bench(benched, "--url", url, *args, code=2)
            assert f"{none}: SSL_CERT_FILE is not the absolute path of a file" in run.err
            assert run.codes == ("bench.bad-certificates",)
        empty = tmp_path / "empty.pem"
        empty.touch()
        for untrusting in (str(empty), ""):
            monkeypatch.setenv("SSL_CERT_FILE", untrusting)
            run = bench(benched, "--url", url, *args, code=4)
            assert run.codes == ("bench.server-unreachable",)
            assert "certificate verify failed" in run.err
            assert (
                "next: check that it serves https under this name; if your own authority" in run.err
            )
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        assert "2 of 2 runs measured" in bench(benched, "--url", url, *args).out


def test_a_server_without_tls(benched, tmp_path):
    with serving(tmp_path, 2) as (target, _):
        url = target.client.url.replace("http:", "https:")
        run = bench(benched, "--url", url, "--recipe", "vllm-0.50", code=4)
    assert "the TLS connection fails" in run.err
    assert "wrong version number" in run.err.lower().replace("_", " ")


def test_two_servers_with_the_same_k(benched, tmp_path):
    with serving(tmp_path, 2) as (one, _), serving(tmp_path, 2) as (other, _):
        urls = ("--url", one.client.url, "--url", other.client.url)
        run = bench(benched, *urls, "--recipe", "vllm-0.50", "--engine", sys.executable, code=2)
        assert "both have k=2" in run.err
        assert run.codes == ("bench.same-k",)
        assert "give --compare A,B" in run.err
        args = ("--recipe", "vllm-0.50", "--engine", sys.executable, "--k", "1")
        run = bench(benched, "--url", one.client.url, *args, "--model", "model", code=2)
        assert "--k would have no effect with --url" in run.err


def test_a_server_without_counters(benched, tmp_path):
    with serving(tmp_path, 0, "no metrics") as (target, _):
        run = bench(benched, "--url", target.client.url, code=1)
    assert run.codes == ("bench.not-a-vllm-server",)
    assert "/metrics answered 404" in run.err
    assert "without --disable-log-stats" in run.err


def test_records_side_by_side(benched):
    store(benched, "one")
    store(benched, "two", gain=0.4)
    run = benched.run(
        "bench", "compare", "bench/one", "bench/two/bench.json", "--output", "both.html"
    )
    assert run.out.startswith(
        "## Benchmark one against two\n\n- A: one: vLLM 0.23.0 with 6 patches"
    )
    assert len(re.findall(r"^\| tiny .* \| B +\| [\d.]+x \[", run.out, flags=re.MULTILINE)) == 8
    page = (benched.folder / "both.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "one against two" in page
    document = benched.run("bench", "compare", "bench/one", "bench/two", "--json").json
    assert document["differences"] == []
    assert [side["name"] for side in document["record"]["sides"]] == ["A", "B"]


def test_records_that_do_not_match(benched):
    store(benched, "one", flags={"max-model-len": 64}, prompts=2)
    store(benched, "two", flags={"max-model-len": 128}, prompts=3)
    pair = ("bench", "compare", "bench/one", "bench/two")
    run = benched.run(*pair, "--output", "both.html", code=1)
    assert run.out == (
        "they differ in prompts: the number of prompts of a load: other prompts were sent\n"
        "they differ in flags: max-model-len is 64 in one and 128 in two\n"
        "not compared; --despite prompts --despite flags does so all the same\n"
    )
    assert not (benched.folder / "both.html").exists()
    benched.run(*pair, "--despite", "flags", code=1)
    run = benched.run(*pair, "--despite", "flags", "--despite", "prompts")
    assert "they differ in flags: max-model-len is 64 in one and 128 in two\n" in run.out
    assert "## Benchmark one against two\n" in run.out
    assert "- **they differ in prompts: the number of prompts of a load" in run.out
    document = benched.run(*pair, "--json", code=1).json
    assert len(document["differences"]) == 2
    assert document["record"] is None


def test_records_with_nothing_in_common(benched):
    store(benched, "one", ks=(1,))
    store(benched, "two", ks=(2,))
    run = benched.run("bench", "compare", "bench/one", "bench/two", code=1)
    assert run.out == "they have no model, k, shape and concurrency in common\n"


def test_records_of_other_folders_names(benched):
    """The same bytes: a name is that of a folder, and the other machine has another.

    Both were measured: all that is compared of records is compared of real ones.
    """
    say_one_load(benched)
    bench(benched, *TREE, "--model", "./model")
    (benched.folder / "model").rename(benched.folder / "checkpoint")
    text = benched.recipe.read_text().replace("/model}", "/checkpoint}")
    benched.recipe.write_text(text)
    benched.run("bench", *TREE, "--name", "two", "--model", "./checkpoint")
    run = benched.run("bench", "compare", "bench/one", "bench/two")
    assert len(re.findall(r"^\| model .* \| B +\| [\d.]+x", run.out, flags=re.MULTILINE)) == 1
    assert "differ" not in run.out


def test_what_is_no_record(benched):
    (benched.folder / "other.json").write_text('{"record-version": 1}')
    (benched.folder / "broken.json").write_text("{")
    (benched.folder / "newer.json").write_text(
        '{"record-version": 9, "points": [], "sides": [], "plan": {}}'
    )
    for name, kind, code in (
        ("nowhere", "bench.record-not-found", 2),
        ("other.json", "bench.unreadable-record", 1),
        ("broken.json", "bench.unreadable-record", 1),
        ("newer.json", "bench.unknown-version", 1),
    ):
        run = benched.run("bench", "compare", name, name, code=code)
        assert (run.codes, run.err[:13]) == ((kind,), f"error: {name}"[:13])
    run = benched.run("bench", "compare", "other.json", code=1)
    assert run.codes == ("bench.unreadable-record",)


def test_the_api_writes_a_record(benched, capfd, monkeypatch):
    for name, value in benched.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(benched.folder)
    benched.trust()
    options = BenchOptions(engine=sys.executable, name="two", k="0", concurrency="1")
    result = api.bench(api.open_context(), "0.50", options=options)
    assert capfd.readouterr() == ("", "")
    assert (result.faults, result.failure, result.folder) == ([], None, Path("bench/two"))
    assert len(result.record.points) == 1
    assert json.loads((result.folder / "bench.json").read_text())["points"]
