"""Measure `vpatch audit` beside pip-audit, which reads only the version that is installed.

    python benchmarks/audit.py [--rounds 5]

Every run is a process of its own. vpatch has a cache of its own with the user's unpacked trees;
`anew` means that nothing else is in it. pip-audit asks a server on this machine, which has the
advisories that come with vpatch. Ends with 1 where a limit is missed. Limits are for two cores.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from measuring import VPATCH, forget, machine, measure, own_cache, show, verdicts

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.commands.audit.trivy import write_installed
from tests.http_server import answering
from vpatch.library.advisories import shipped_advisories

RELEASE = "0.23.0"
LIMITS = {"one release remembered, s": 3.0, "all releases remembered, s": 10.0}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(machine())
    found = {}
    with tempfile.TemporaryDirectory() as workdir:
        at = Path(workdir)
        cache = own_cache(at / "cache")
        cases = {"one release": ["--vllm", RELEASE], "all releases": ["--all"]}
        for name, options in cases.items():
            command = [*VPATCH, "audit", *options, "--offline"]
            forget(cache)
            show(f"audit {' '.join(options)}, anew", [measure(command, at=at, ends=(1,))])
            runs = [measure(command, at=at, ends=(1,)) for _ in range(rounds)]
            show(f"audit {' '.join(options)}", runs)
            found[f"{name} remembered, s"] = statistics.median(run.wall for run in runs)
        write_installed(at / "root", RELEASE)
        vulns = [one.model_dump(mode="json") for one in shipped_advisories().all]
        body = json.dumps({"vulns": vulns}).encode()
        with answering(lambda _path: (200, body)) as port:
            words = ["-s", "osv", "--osv-url", f"http://127.0.0.1:{port}", "--path"]
            words += ["root/usr/lib/python3/site-packages", "--cache-dir", "pip-audit"]
            words += ["--progress-spinner", "off"]
            command = [sys.executable, "-m", "pip_audit", *words]
            show("pip-audit", [measure(command, at=at, ends=(1,)) for _ in range(rounds)])
    return int(not verdicts(found, LIMITS))


if __name__ == "__main__":
    sys.exit(main())
