from __future__ import annotations

import pytest

from tests.environments import environment_with_vllm
from tests.index_server import Index, serve
from tests.projects import NAME_PROJ, SLOW_MODE, VERSION, archive, write_patch
from vpatch.commands.run import decision as run_decision
from vpatch.commands.run.usecase import patched_run
from vpatch.trust.store import Store, content_of, default_folder
from vpatch.workspace.context import Context
from vpatch.workspace.selection import Request

# To load the whole library takes longer than all the rest.
REQUEST = Request(VERSION, patches=("name-proj", "slow-mode"))


@pytest.fixture
def asking(isolated, monkeypatch):
    """A project, an environment, and how often vpatch decided about it."""
    with serve(Index()) as index:
        index.add(VERSION, archive())
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        project = isolated / "project"
        write_patch(project / "patches", "name-proj", NAME_PROJ)
        write_patch(project / "patches", "slow-mode", SLOW_MODE)
        monkeypatch.chdir(project)
        monkeypatch.delenv("PYTHONPATH", raising=False)
        made = environment_with_vllm(isolated / "env")
        yield Asking(project, made, isolated / "cache", monkeypatch)


class Asking:
    def __init__(self, project, made, cache, monkeypatch):
        self.project, self.made, self.cache, self.monkeypatch = project, made, cache, monkeypatch
        self.decisions = 0
        decided = run_decision.decided

        def counted(*args, **options):
            self.decisions += 1
            return decided(*args, **options)

        monkeypatch.setattr(run_decision, "decided", counted)
        self.trust()

    def trust(self):
        for folder in (self.project / "patches").iterdir():
            Store(default_folder()).add("path", str(folder.resolve()), content_of(folder).digest)

    def ask(self, request=REQUEST, *, make=False, words=None):
        with Context() as context:
            found = patched_run(
                context, request, words or [str(self.made.bin / "vllm")], None, make=make
            )
            if found.kept_overlay:
                found.kept_overlay.lock.release()
            return found

    def is_known(self, request=REQUEST, *, make=False, words=None):
        """Whether nothing was decided to answer this."""
        before = self.decisions
        self.ask(request, make=make, words=words)
        return self.decisions == before
