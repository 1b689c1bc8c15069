"""vpatch run on a real vLLM: the checks of the recipe's smoke plan; nothing is written there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace

from tests.documents import page, shown
from vpatch.commands.smoke.prove import run_smoke
from vpatch.commands.smoke.usecase import SmokeOptions, engine_request
from vpatch.engine.process import started
from vpatch.harness.sandbox import own_variables
from vpatch.runs.cluster_options import Here
from vpatch.source.cache import default_cache_folder
from vpatch.util.digest import digest_of
from vpatch.workspace.context import Context
from vpatch.workspace.selection import Request

RECIPE = "vllm-0.23"
RUN = [sys.executable, "-m", "vpatch", "run", "--recipe", RECIPE, "--"]


def files_of(packages):
    """Every file below a folder of packages, bytecode included, and what vLLM's own hold."""
    found = {}
    for path in packages.rglob("*"):
        if path.is_file():
            is_own = packages / "vllm" in path.parents and path.suffix != ".so"
            found[path] = digest_of(path.read_bytes()) if is_own else path.stat().st_size
    return found


@dataclass(frozen=True)
class RunSandbox:
    """Where vpatch run starts the processes: see `vpatch.harness.sandbox.Sandbox`."""

    python: object
    digests: dict

    def started(self, command, *, workdir, log, extra_env):
        environment = os.environ | own_variables(workdir) | dict(extra_env)
        # Users have not switched bytecode off.
        del environment["PYTHONDONTWRITEBYTECODE"]
        return started([*RUN, *command], cwd=workdir, log=log, environment=environment)

    def verify(self):
        pass  # each run verifies it


class RunTarget:
    image = None

    def __init__(self, target):
        self.target = target
        self.kind, self.version = target.kind, target.version

    def sandbox(self, phase, work, name=None):
        digests = self.target.sandbox(phase, work, name).digests
        return RunSandbox(self.target.engine.python, digests)


def test_the_cells_of_the_recipe_pass_and_the_engine_stays_as_it_is(engine, tmp_path):
    packages = engine.package.parent
    (tmp_path / "logs").mkdir()
    before = files_of(packages)
    with Context() as context, ExitStack() as stack:
        options, where = SmokeOptions(engine="cpu", name="run"), Here("cpu")
        order, target = engine_request(context, Request(recipe=RECIPE), options, where, stack)
        # A server has an engine in a process of its own, which dies without the patches.
        cells = [cell for cell in order.cells if (cell.mode, cell.k) == ("server", 3)][:1]
        told = []
        record = run_smoke(
            replace(order, cells=cells),
            RunTarget(target),
            tmp_path,
            context.progress,
            lambda _, name, checks: told.append((name, checks)),
        )
    assert record.result == "passed", told
    checks = {check.name: check.verdict for _, found in told for check in found}
    assert checks["patched files"] == "pass"
    assert files_of(packages) == before


def test_the_page_shows_what_is_printed(engine, tmp_path):
    (command,) = re.findall(r"^vpatch (run .*--dry-run.*)$", page("how-to/run.md"), re.MULTILINE)
    cache = tmp_path / "cache"
    cache.mkdir()
    for kind in ("trees", "index", "engines"):
        (cache / kind).symlink_to(default_cache_folder() / kind)
    path = f"{engine.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    said = subprocess.run(
        [sys.executable, "-m", "vpatch", *command.split()],
        cwd=tmp_path,
        env=os.environ | {"PATH": path, "VPATCH_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for found, written in (
        (str(engine.folder), "/srv/venv"),
        (str(cache), "/home/me/.cache/vpatch"),
    ):
        said = said.replace(found, written)
    # The name has the digest of the paths of links.
    name = re.compile(r"overlay-0\.23\.0-\w{16}")
    assert name.sub("NAME", said) == name.sub("NAME", shown("run"))
