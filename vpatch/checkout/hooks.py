"""Upstream's own pre-commit hooks on what a proposal changes, as far as they can run here.

Hooks that lie in upstream's tree run as they are. Those that lie in repositories of their own are,
where they only wrap a package of the package index, run as that package, at the version that
upstream pins: it is what such a mirror installs as well. The report lists the rest as not run.
"""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ruamel.yaml import YAML

from vpatch.git import checkout as git
from vpatch.git.checkout import NewCommit
from vpatch.source.rule_files import read_yaml
from vpatch.util import child_environment
from vpatch.util.run_log import command_line, timed
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from vpatch.progress import Progress
    from vpatch.source.entry import CachedTree

_log = logging.getLogger(__name__)
_SECONDS = 900
_PYTHON = ["python", "pyi"]
# What a mirror's hooks are, by their ids: the package, the command, and the files it looks at.
_PACKAGES: dict[str, tuple[str, dict[str, tuple[str, list[str]]]]] = {
    "astral-sh/ruff-pre-commit": (
        "ruff",
        {
            "ruff": ("ruff check --force-exclude", _PYTHON),
            "ruff-check": ("ruff check --force-exclude", _PYTHON),
            "ruff-format": ("ruff format --force-exclude", _PYTHON),
        },
    ),
    "crate-ci/typos": ("typos", {"typos": ("typos", ["text"])}),
    "pre-commit/mirrors-clang-format": (
        "clang-format",
        {"clang-format": ("clang-format -i", ["c++", "cuda"])},
    ),
}
# They make the commit's message, or only say something.
_NO_CHECKS = {"suggestion"}
_LINE = re.compile(
    r"^(?P<name>.+?)\.{3,}(?:\([^)]*\))?(?P<verdict>Passed|Failed|Skipped)$", re.MULTILINE
)
_ID = re.compile(r"^- hook id: (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Hook:
    """A hook, and how it ended.

    `idle` has nothing to look at in these files, `elsewhere` cannot be had here, and
    `not run` is one that should have run.
    """

    id: str
    verdict: Literal["pass", "fail", "idle", "not run", "elsewhere"]
    output: str = ""


def run_hooks(
    tree: CachedTree,
    file: str,
    changes: Mapping[str, bytes],
    home: Path,
    progress: Progress,
    *,
    offline: bool = False,
    packages_only: bool = False,
) -> list[Hook]:
    """Run the hooks of `file` in a checkout of upstream's tree with some files changed.

    `home` keeps what pre-commit installs. Hooks that change files fail, as they do upstream. With
    `offline`, hooks have no network: what is not installed yet is not run. With `packages_only`,
    no hook runs that is code of upstream's tree.

    Raises:
        RulesError: the file is not there, or no configuration.
    """
    derived, not_run = _derived(tree, file, packages_only=packages_only)
    with scratch_folder() as scratch:
        checkout = scratch / "upstream"
        repository, base = tree.base_repository(progress)
        git.create_checkout(checkout, repository, base, [])
        git.add_commits(checkout, base, [NewCommit("proposal", changes)])
        git.check_out(checkout, git.PATCHED_BRANCH)
        config = scratch / "hooks.yaml"
        with config.open("w", encoding="utf-8") as stream:
            YAML(typ="safe", pure=True).dump(derived, stream)
        ran: list[Hook] = []
        ids = [hook["id"] for repo in derived["repos"] for hook in repo["hooks"]]
        hooks = list(dict.fromkeys(ids))
        for number, hook_id in enumerate(hooks, 1):
            task = progress.start(f"Upstream's hook {hook_id} ({number} of {len(hooks)})")
            results = list(_run(hook_id, config, checkout, sorted(changes), home, offline=offline))
            mended = git.uncommitted(checkout).decode(errors="replace")
            if mended:
                # The next hook gets what is proposed, and not what this one made of it.
                git.restore(checkout)
                results = [replace(one, output=f"{one.output}\n{mended}") for one in results]
            ran += results
            task.done()
    return [*ran, *not_run]


def _derived(
    tree: CachedTree, file: str, *, packages_only: bool
) -> tuple[dict[str, Any], list[Hook]]:
    """The configuration with what can run here, and what cannot."""
    document = read_yaml(tree, file, "repos", "hooks")
    here, elsewhere = [], []
    for repo in document["repos"]:
        known = _PACKAGES.get("/".join(repo["repo"].removesuffix(".git").rsplit("/", 2)[1:]))
        if repo["repo"] == "local":
            hooks = [hook for hook in repo["hooks"] if _checks(hook) and not packages_only]
        elif known is not None:
            package, commands = known
            hooks = [
                {
                    "types_or": types,
                    "name": hook["id"],
                    **hook,
                    "entry": entry,
                    "language": "python",
                    "additional_dependencies": [f"{package}=={repo['rev'].removeprefix('v')}"],
                    "require_serial": True,
                }
                for hook in repo["hooks"]
                if hook["id"] in commands
                for entry, types in [commands[hook["id"]]]
            ]
        else:
            hooks = []
        there = {hook["id"] for hook in hooks}
        if repo["repo"] != "local":
            where = f"it lies in {repo['repo']}"
            elsewhere += [
                Hook(h["id"], "elsewhere", where) for h in repo["hooks"] if h["id"] not in there
            ]
        if hooks:
            here.append({"repo": "local", "hooks": hooks})
    return {**document, "repos": here}, elsewhere


def _checks(hook: Any) -> bool:
    stages = hook.get("stages", ["pre-commit"])
    return hook["id"] not in _NO_CHECKS and "pre-commit" in stages


def _run(
    hook_id: str,
    config: Path,
    checkout: Path,
    files: Sequence[str],
    home: Path,
    *,
    offline: bool,
) -> Iterator[Hook]:
    """One hook, which may be in the configuration more than once."""
    command = [sys.executable, "-P", "-m", "pre_commit", "run", "--color=never"]
    environment = child_environment.environment()
    environment |= {"PRE_COMMIT_HOME": str(home), "PRE_COMMIT_ALLOW_NO_CONFIG": "0"}
    if offline:
        environment |= _NO_NETWORK
        command = [*_without_network(), *command]
    command += ["--config", str(config), hook_id, "--files", *files]
    try:
        with timed(_log, logging.INFO, command_line(command)):
            ended = subprocess.run(
                command,
                cwd=checkout,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired:
        yield Hook(hook_id, "not run", f"it did not end within {_SECONDS} s")
        return
    lines = list(_LINE.finditer(ended.stdout))
    if not lines and offline:
        yield Hook(hook_id, "not run", "offline, and it is not installed yet")
    elif not lines:
        yield Hook(hook_id, "not run", _gist(ended.stdout + ended.stderr))
    for number, line in enumerate(lines):
        end = lines[number + 1].start() if number + 1 < len(lines) else len(ended.stdout)
        output = ended.stdout[line.end() : end].strip()
        if line["verdict"] == "Failed":
            yield Hook(hook_id, "fail", _ID.sub("", output).strip())
        else:
            yield Hook(hook_id, "pass" if line["verdict"] == "Passed" else "idle")


# For what installs hooks and for what they run: at once an error, and no waiting for a time-out.
_NO_NETWORK = {
    "PIP_NO_INDEX": "1",
    "CARGO_NET_OFFLINE": "true",
    "GOPROXY": "off",
    "npm_config_offline": "true",
    **{
        spelt: "http://127.0.0.1:9"
        for name in ("http_proxy", "https_proxy", "all_proxy")
        for spelt in (name, name.upper())
    },
    "no_proxy": "",
    "NO_PROXY": "",
}


def _without_network() -> list[str]:
    """What to put before a command so that it has no network, where the system can do that."""
    prefix = ["unshare", "--user", "--map-current-user", "--net"]
    try:
        can = subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return []
    return prefix if can else []


def _gist(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if "rror" in line), lines[-1] if lines else "")
