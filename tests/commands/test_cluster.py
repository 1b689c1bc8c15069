"""vpatch smoke --cluster: cells on the nodes of a Ray cluster, with a vLLM of a few lines."""

from __future__ import annotations

import json
import re
import signal
from contextlib import suppress

import psutil
import pytest

from tests.cluster.fixtures import (
    SECRET,
    fixture_cluster,
    fixture_clustered,
    living,
)
from tests.commands.smoke.planned import PLAN
from tests.waiting import LIMIT, until

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.full]

__all__ = ["fixture_cluster", "fixture_clustered"]
BEGUN = re.compile(r"^after, (\d+) of \d+: (.+) on \S+-(\w{6})(?:, attempt \d)?$", re.MULTILINE)
# Each has a row of its own, so that no cell waits for another one's verdict.
TWELVE = PLAN.replace(
    "    - {model: given, k: [0, 2]}\n", "    - {model: given, k: [0, 1, 2, 3, 4, 5]}\n"
)


def record_of(clustered, name):
    folder = clustered.project.folder / "evidence" / name
    return json.loads((folder / "results.json").read_text())


def judged(record):
    """What must not depend on where cells ran: all checks, and the counters of every round."""
    return [
        (
            cell["cell"],
            [(check["name"], check["verdict"]) for check in cell["checks"]],
            [(one["counters"], one["passes"].keys()) for one in cell["rounds"]],
        )
        for cell in record["cells"]
    ]


def lines_of(process):
    """Read what a run says of its progress, line by line."""
    for line in process.stderr:
        yield line.rstrip("\n")


def test_the_same_as_on_this_machine_and_not_again(clustered):
    clustered.project.env["HF_TOKEN"] = "hf_of_the_user"  # noqa: S105 - nobody's
    clustered.run("--name", "here", on="here")
    run = clustered.run("--name", "there")
    here, there = (record_of(clustered, name) for name in ("here", "there"))
    assert judged(there) == judged(here)
    assert there["imports"] == here["imports"]
    assert there["digest"] == here["digest"]
    assert there["models"] == here["models"]
    assert run.out.splitlines()[-1] == "4 of 4 cells pass; evidence: evidence/there"
    nodes = {one["node"] for cell in there["cells"] for one in cell["rounds"]}
    assert nodes <= there["machines"].keys()
    assert all(there["machines"][node]["machine"]["cores"] for node in nodes)
    verified = clustered.project.run("evidence", "verify", "there", in_process=False)
    assert "there matches (passed, " in verified.out
    report = (clustered.project.folder / "evidence" / "there" / "report.md").read_text()
    assert re.search(r"^- given k=2 server ran on \S+$", report, re.MULTILINE)
    # Neither the tokens of the user nor those of a node reach an engine.
    shown = (clustered.project.folder / "evidence" / "there" / "environment.txt").read_text()
    assert "'PATH'" in shown
    assert SECRET not in shown
    assert "hf_of_the_user" not in shown
    # Nobody listens at this address: if all cells are kept, the cluster is not even asked.
    run = clustered.run("--name", "kept", "--resume", on="127.0.0.1:1")
    assert "note: 4 cells of an earlier run: the evidence is kept and verifies\n" in run.err
    assert judged(record_of(clustered, "kept")) == judged(there)
    logs = sorted(clustered.project.folder.glob("evidence/.cells/*/files/log"))
    (changed, *_) = [log for log in logs if "flags" in log.read_text()]
    changed.write_text("all is well")
    run = clustered.run("--name", "changed", "--resume")
    assert len(BEGUN.findall(run.err)) == 1
    assert "note: 3 cells of an earlier run" in run.err


def test_cells_run_where_the_labels_are(clustered):
    row = "    - {model: given, k: [0, 2], needs: {labels: {slot: SLOT}}}\n"
    plan = PLAN.partition("    - {model")[0] + row.replace("SLOT", "a") + row.replace("SLOT", "b")
    clustered.plan(plan)
    run = clustered.run("--name", "one")
    by_row = {}
    for number, _, node in BEGUN.findall(run.err):
        by_row.setdefault((int(number) - 1) // 4, set()).add(node)
    assert len(by_row[0]) == len(by_row[1]) == 1
    assert by_row[0] != by_row[1]


def test_what_fits_on_no_node_is_said_before_anything_starts(clustered):
    clustered.plan(PLAN.replace("k: [0, 2]}", "k: [0, 2], needs: {labels: {slot: z}}}"))
    run = clustered.run("--name", "one", code=4)
    assert "no node can take the cell given k=0 offline:" in run.errors
    assert run.errors.count("wanted: 1 CPUs, 0 GPUs, slot=z") == 3
    assert BEGUN.findall(run.err) == []
    assert not (clustered.project.folder / "evidence" / "one").exists()


def finished(process):
    out, err = process.communicate(timeout=LIMIT)
    return out, err


def test_a_node_dies_under_a_cell(clustered):
    """Twelve cells, and a node that is killed while it has the first of its own."""
    # Slow, so that the cell has not ended when its node does.
    slow = "    environment: {FAKE_FAULT: slow}\n    max-tokens"
    clustered.plan(TWELVE.replace("    max-tokens", slow))
    victim = clustered.cluster.add("victim")
    with clustered.start("--name", "one") as process:
        err = []
        for line in lines_of(process):
            err.append(line)
            found = BEGUN.match(line)
            if found and found[3] == victim:
                clustered.cluster.kill("victim")
                break
        out, rest = finished(process)
    err = "\n".join([*err, rest])
    assert process.returncode == 0, err
    assert "12 of 12 cells pass" in out
    record = record_of(clustered, "one")
    rounds = [one for cell in record["cells"] for one in cell["rounds"]]
    assert len(rounds) == 12
    assert len({one["log"] for one in rounds}) == 12
    lost = [attempt for one in rounds for attempt in one["lost"]]
    assert lost
    assert all(attempt["node"].endswith(victim) for attempt in lost)
    again = clustered.run("--name", "two", "--resume", on="127.0.0.1:1")
    assert "note: 12 cells of an earlier run" in again.err
    assert judged(record_of(clustered, "two")) == judged(record)


HANGING = PLAN.replace("    max-tokens", "    environment: {FAKE_FAULT: hang}\n    max-tokens")


def test_a_worker_is_killed(clustered):
    """The worker of Ray alone: its cell's processes end, and the loss is a finding."""
    clustered.plan(HANGING.replace("k: [0, 2]}", "k: [0], modes: [server]}"))
    with clustered.start("--name", "one", "--attempts", "1") as process:

        def server():
            for found in living(clustered.python):
                with suppress(psutil.Error):  # it ended
                    if "--served-model-name" in found.cmdline():
                        return found.parents()
            return None

        parents = until(server, process=process)
        next(p for p in parents if p.cmdline()[:1] and p.cmdline()[0].startswith("ray::")).kill()
        out, err = finished(process)
    assert process.returncode == 1, err
    assert "runs: lost: 1 attempt, the last one on" in out
    (cell,) = record_of(clustered, "one")["cells"]
    assert len(cell["rounds"][0]["lost"]) == 1


def test_a_cell_that_hangs_is_tried_elsewhere_and_then_a_finding(clustered):
    plan = HANGING.replace("token: 600", "token: 1").replace(
        "k: [0, 2]}", "k: [0], modes: [server]}"
    )
    clustered.plan(plan)
    run = clustered.run("--name", "one", "--attempts", "2", code=1)
    nodes = [node for _, _, node in BEGUN.findall(run.err)]
    assert len(nodes) == 2
    assert nodes[0] != nodes[1]
    assert "runs: hangs: no token in time" in run.out
    logs = {path.name for path in (clustered.project.folder / "evidence/one/logs").iterdir()}
    assert logs == {
        "after-imports.log",
        "after-01-given-k-0-server.log",
        "after-01-given-k-0-server.attempt-1.log",
    }
    assert clustered.project.run("evidence", "verify", "one", code=1).errors == ""


def jobs(clustered):
    """The work folders of jobs on the nodes. A node that died has left what it had."""
    return set(clustered.cluster.temporary.glob("vpatch-job-*"))


def under_way(clustered, process):
    """Wait until an engine runs on a node, and has said something."""
    log = clustered.project.folder / "evidence"
    until(lambda: [f for f in log.glob(".*.partial/logs/*server.log") if f.stat().st_size])
    return until(lambda: living(clustered.python), process=process)


def test_ctrl_c_leaves_nothing_on_any_node(clustered):
    clustered.plan(HANGING.replace("k: [0, 2]}", "k: [0, 2], modes: [server]}"))
    before = jobs(clustered)
    with clustered.start("--name", "one") as process:
        under_way(clustered, process)
        assert jobs(clustered) > before
        process.send_signal(signal.SIGINT)
        _, err = finished(process)
    assert process.returncode == 130, err
    # Not waited for: it is so when the command ends.
    assert living(clustered.python) == []
    until(lambda: jobs(clustered) <= before)
    assert [p.name for p in (clustered.project.folder / "evidence").iterdir()] in ([], [".cells"])


def test_a_driver_that_was_killed_goes_on(clustered):
    """What it did is kept, and nothing of it runs on."""
    rows = "    - {model: given, k: [0], modes: [offline]}\n"
    hang = "    - {model: given, k: [1], modes: [server], environment: {FAKE_FAULT: hang}}\n"
    plan = PLAN.partition("    - {model")[0]
    clustered.plan(plan + rows + hang)
    before = jobs(clustered)
    with clustered.start("--name", "one") as process:
        under_way(clustered, process)
        kept = clustered.project.folder / "evidence" / ".cells"
        until(lambda: len(list(kept.glob("*/files/log"))) == 2, process=process)
        process.send_signal(signal.SIGKILL)
        finished(process)
    until(lambda: living(clustered.python) == [])
    until(lambda: jobs(clustered) <= before)
    clustered.plan(plan + rows)
    run = clustered.run("--name", "one", "--resume", on="127.0.0.1:1")
    assert "note: 1 cell of an earlier run" in run.err
    assert record_of(clustered, "one")["result"] == "passed"


def test_large_files_come_through_shared_storage(clustered, tmp_path):
    (packages,) = clustered.python.parents[1].glob("lib/*/site-packages")
    line = 'import os; "TALKATIVE" in os.environ and print("a line of a log " * 2**17, flush=True)'
    (packages / "talkative.pth").write_text(line)
    talkative = "    environment: {TALKATIVE: much}\n    max-tokens"
    clustered.plan(PLAN.replace("    max-tokens", talkative))
    shared = tmp_path / "shared"
    seen = set()
    with clustered.start("--name", "one", "--storage", shared) as process:
        until(lambda: process.poll() is not None or seen.update(shared.glob("*/*/*")))
        out, err = finished(process)
    assert "4 of 4 cells pass" in out, err
    assert len({path.parent for path in seen}) >= 2
    logs = list((clustered.project.folder / "evidence" / "one" / "logs").glob("*k-*.log"))
    assert len(logs) == 4
    assert all(path.stat().st_size > 2**21 for path in logs)
    assert list(shared.iterdir()) == []


def test_a_storage_that_the_nodes_do_not_share(clustered, tmp_path):
    """The folder of a node is another one: there, a file has its name."""
    (tmp_path / "file").write_text("")
    run = clustered.run("--name", "one", "--storage", tmp_path / "file", code=4)
    assert "the storage does not take files: " in run.errors
    assert not (clustered.project.folder / "evidence" / "one").exists()
