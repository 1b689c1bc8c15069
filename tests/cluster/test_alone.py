"""Jobs on real nodes of Ray, without an engine: what each one has is its own."""

from __future__ import annotations

import json
from contextlib import closing
from itertools import pairwise

import pytest

from tests.cluster.local_cluster import local_cluster
from vpatch.cluster.connection import connected
from vpatch.cluster.job import ClusterJob, JobDone
from vpatch.cluster.parcel import Parcel

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.full]

# Long enough to tell of itself while it runs.
SLEEPER = b"""
import json, sys, time
from pathlib import Path
out, begun = Path(sys.argv[1], "out"), time.time()
for line in range(12):
    (out / "log").open("a").write(f"{line}\\n")
    time.sleep(0.25)
(out / "times.json").write_text(json.dumps([begun, time.time()]))
"""


def test_the_cpu_of_a_job_is_its_own(tmp_path):
    parcel = Parcel({"code/sleeper.py": SLEEPER})
    jobs = [ClusterJob(f"job {number}", "sleeper", b"") for number in range(3)]
    with (
        local_cluster(tmp_path, "a") as cluster,
        connected(cluster.address) as opened,
        closing(opened.run(parcel, jobs)) as events,
    ):
        done = [event for event in events if isinstance(event, JobDone)]
    times = [json.loads(event.files["times.json"]) for event in done]
    assert len(times) == 3
    for (_, ended), (begun, _) in pairwise(sorted(times)):
        assert ended <= begun, times
