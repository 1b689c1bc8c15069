"""Environments with a small vLLM, for the commands that patch and verify one."""

from __future__ import annotations

from tests.commands.install import official
from tests.commands.install.environments import install_wheel
from tests.environments import bare_environment
from tests.projects import VERSION, snapshot

INFO = f"vllm-{VERSION}.dist-info"


class Installed:
    """An environment; `site` is its folder of packages."""

    def __init__(self, project, python, site):
        self.project, self.python, self.site = project, python, site

    def install(self, *args, **options):
        words = ("install", "--vllm", VERSION, "--python", self.python)
        return self.project.run(*words, *args, **options)

    def uninstall(self, **options):
        return self.project.run("uninstall", "--python", self.python, **options)

    def verify(self, *args, **options):
        return self.project.run("verify-env", self.python, *args, **options)

    def state(self):
        """Every file with its mode, its time and its content, and every folder."""
        found = snapshot(self.site)
        times = {
            path: (self.site / path).stat().st_mtime_ns
            for path in found
            if (self.site / path).is_file()
        }
        return {path: (what, times.get(path)) for path, what in found.items()}

    def read(self, path):
        return (self.site / path).read_bytes()


def made(project, tmp_path, **wheel):
    python = bare_environment(tmp_path / "env").python
    path = official.write(tmp_path / "official", **wheel)
    return Installed(project, python, install_wheel(python, path))
