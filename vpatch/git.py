"""The only module that runs git, through GitPython."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from vpatch.errors import UsageError, VpatchError
from vpatch.source.manifest import SourceFile
from vpatch.source.urls import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from git import Git

BASE_BRANCH = "base"
FULL_COMMIT = re.compile(r"[0-9a-f]{40}")
# Bytes go in and out of a repository as they are, whatever a .gitattributes of the tree says.
EXACT_BYTES = "* -text -eol -ident -filter -working-tree-encoding\n"

_WHO = "vpatch"
_EMAIL = "vpatch@localhost"
_EPOCH = 1577836800  # 2020-01-01T00:00:00Z
_PINNED_CONFIG = {
    "commit.gpgSign": "false",
    "core.attributesFile": os.devnull,
    "core.autocrlf": "false",
    "core.compression": "1",
    "core.excludesFile": os.devnull,
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.quotePath": "false",
    "gc.auto": "0",
    "init.defaultBranch": BASE_BRANCH,
    "maintenance.auto": "false",
    "safe.bareRepository": "all",
    "safe.directory": "*",
    "tag.gpgSign": "false",
}
# What `git rev-parse --local-env-vars` lists, less the user's own configuration. Set by a hook or
# an editor that runs vpatch, each would point git at another repository than the one we name.
_REPOSITORY_VARIABLES = frozenset({
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
})  # fmt: skip


@dataclass(frozen=True)
class Environment:
    """Variables for git, and which of the inherited ones to drop."""

    values: Mapping[str, str]
    drops: Callable[[str], bool]


def _pinned_values() -> dict[str, str]:
    date = f"{_EPOCH} +0000"
    values = {
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_COUNT": str(len(_PINNED_CONFIG)),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "TZ": "UTC",
    }
    for role in ("AUTHOR", "COMMITTER"):
        values |= {f"GIT_{role}_NAME": _WHO, f"GIT_{role}_EMAIL": _EMAIL, f"GIT_{role}_DATE": date}
    for number, (key, value) in enumerate(_PINNED_CONFIG.items()):
        values |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return values


# For everything local: the same result on any machine, whatever the user's settings.
PINNED = Environment(
    _pinned_values(), lambda name: name.startswith("GIT_") and name != "GIT_EXEC_PATH"
)
# For what talks to a remote: the user's own credentials, proxies and insteadOf.
# In English, as what it says is looked into.
USER = Environment(
    {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}, lambda name: name in _REPOSITORY_VARIABLES
)


class GitError(VpatchError):
    """A git command failed; `command`, `status` and `stderr` hold no credentials."""

    def __init__(self, command: str, status: int | None, stderr: str, *, todo: str) -> None:
        self.command = redact(command)
        self.status = status
        self.stderr = redact(stderr).strip()
        outcome = "could not be started" if status is None else f"ended with status {status}"
        super().__init__(f"{self.command} {outcome}: {self.stderr}", todo=todo)

    @property
    def gist(self) -> str:
        """The line of git's message that says why."""
        lines = self.stderr.splitlines() or [self.what]
        line = next((line for line in lines if line.startswith("fatal: ")), lines[-1])
        return line.removeprefix("fatal: ").removeprefix("error: ")


@dataclass(frozen=True)
class ResolvedRef:
    """A commit, and the name by which the remote hands it out."""

    commit: str
    name: str


def run(
    repo: Path | None,
    *args: str,
    stdin: bytes | BinaryIO = b"",
    stdout: BinaryIO | None = None,
    env: Environment = PINNED,
) -> bytes:
    """Run git in `repo` and return what it prints, or write that to `stdout`.

    Raises GitError where git is missing or fails.
    """
    command = ["git", *(["-C", str(repo)] if repo else []), *args]
    # GitPython can add to the inherited environment and not take from it; env(1) can.
    dropped = [name for name in os.environ if env.drops(name) and name not in env.values]
    prefix = ["env", *(f"--unset={name}" for name in dropped)] if dropped else []
    with _temporary_file() as buffer:
        if isinstance(stdin, bytes):
            buffer.write(stdin)
            stdin = buffer
        stdin.seek(0)
        status, output, stderr = _gitpython().execute(
            [*prefix, *command],
            istream=stdin,
            output_stream=stdout,
            with_extended_output=True,
            with_exceptions=False,
            stdout_as_string=False,
            strip_newline_in_stdout=False,
            env=env.values,
        )
    if status:
        todo = "see git's message"
        if env is USER:
            todo += "; it must be able to reach the remote without asking for a password"
        raise GitError(" ".join(command), status, stderr, todo=todo)
    return output or b""


def _gitpython() -> Git:
    """Import GitPython on first use: it costs 90 ms, and fails where there is no git."""
    try:
        from git import Git  # noqa: PLC0415
    except ImportError as error:
        raise GitError(
            "git",
            None,
            str(error).strip().partition("\n")[0],
            todo="install git, or put it on PATH",
        ) from error
    return Git()


def identity(folder: Path) -> tuple[str, str] | None:
    """Return the name and email by which the user commits in `folder`.

    None where one is not set, or cannot stand in a commit.
    """
    found = []
    for key in ("user.name", "user.email"):
        try:
            found.append(run(folder, "config", "--get", key, env=USER).decode().strip())
        except GitError as error:
            if error.status != 1:
                raise
            return None
    known = all(found) and not any(set("<>\n") & set(one) for one in found)
    return (found[0], found[1]) if known else None


def credential(url: str) -> str | None:
    """Ask git's credential helpers, and nobody at a terminal, for the password to `url`."""
    asked = Environment({**USER.values, "GIT_ASKPASS": "false", "SSH_ASKPASS": "false"}, USER.drops)
    try:
        filled = run(None, "credential", "fill", stdin=f"url={url}\n\n".encode(), env=asked)
    except GitError:
        return None  # no helper has it
    lines = (line.partition("=") for line in filled.decode().splitlines())
    return next((value for key, _, value in lines if key == "password" and value), None)


def resolve_ref(url: str, ref: str) -> ResolvedRef:
    """Ask the remote or local repository which commit `ref` is; a tag goes before a branch."""
    _refuse_options(url, ref)
    if Path(url).is_dir():
        return _resolve_local(Path(url), ref)
    names = [f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", f"refs/heads/{ref}", ref]
    listed = run(None, "ls-remote", "--", url, *names, env=USER).decode()
    commits = {name: commit for commit, name in (line.split("\t") for line in listed.splitlines())}
    for name in names:
        if name in commits:
            return ResolvedRef(commits[name], name.removesuffix("^{}"))
    if FULL_COMMIT.fullmatch(ref):
        return ResolvedRef(ref, ref)
    raise UsageError(
        f"the repository has no tag or branch {ref!r}",
        where=redact(url),
        todo="name a tag or a branch of it, or a commit by all 40 digits of its id",
    )


def _resolve_local(repo: Path, ref: str) -> ResolvedRef:
    try:
        commit = run(repo, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
    except GitError as error:
        raise UsageError(
            f"no commit {ref!r} there: {error.stderr}",
            where=str(repo),
            todo="name a tag, a branch or a commit of that repository",
        ) from error
    return ResolvedRef(commit.decode().strip(), commit.decode().strip())


def fetch_commit(url: str, ref: ResolvedRef, into: Path) -> None:
    """Fetch that one commit into a new bare repository.

    Depth 1 and no filter: every file of the commit is wanted, so a partial clone would only split
    one transfer into two.
    """
    _refuse_options(url, ref.name)
    init_bare(into)
    options = ["-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "protocol.version=2"]
    options += ["-c", "safe.bareRepository=all", "-c", f"core.hooksPath={os.devnull}"]
    fetch = ["fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules"]
    source = str(Path(url).resolve()) if Path(url).is_dir() else url
    run(into, *options, *fetch, "--", source, ref.name, env=USER)
    fetched = run(into, "rev-parse", "--verify", "FETCH_HEAD^{commit}").decode().strip()
    if fetched != ref.commit:
        raise VpatchError(
            f"{ref.name} moved from {ref.commit} to {fetched} while it was fetched",
            where=redact(url),
            todo="run the command again",
        )


def commit_files(repo: Path, commit: str) -> Iterator[SourceFile]:
    """Yield the files of a commit as they are stored: no attribute, filter or line end applies.

    Submodules are left out.
    """
    listed = run(repo, "ls-tree", "-r", "-z", "--full-tree", commit)
    entries = []
    for line in listed.split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        mode, kind, blob = facts.split()
        if kind == b"blob":
            entries.append((os.fsdecode(path), int(mode, 8), blob))
    with _temporary_file(repo) as contents:
        wanted = b"".join(blob + b"\n" for _, _, blob in entries)
        run(repo, "cat-file", "--batch", "--buffer", stdin=wanted, stdout=contents)
        contents.seek(0)
        for name, git_mode, _ in entries:
            size = int(contents.readline().split()[2])
            yield SourceFile(name, git_mode, contents.read(size))
            contents.read(1)


def worktree_files(folder: Path) -> list[str]:
    """List what git tracks below `folder` or would track: everything that it does not ignore."""
    listed = run(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return sorted({os.fsdecode(path) for path in listed.split(b"\0")[:-1]})


def create_base_repository(dest: Path, files: Iterable[SourceFile], message: str) -> str:
    """Make a bare repository whose one commit holds exactly `files`, in one pack.

    The commit id depends on the arguments alone. Returns it.
    """
    init_bare(dest)
    (dest / "info").mkdir(exist_ok=True)
    (dest / "info" / "attributes").write_text(EXACT_BYTES, encoding="utf-8")
    with _temporary_file(dest) as stream:
        _write_import_stream(stream, files, message)
        # Without deltas the pack is twice as large and made in half the time.
        options = ["-c", "fastimport.unpackLimit=0", "-c", "pack.compression=1"]
        run(dest, *options, "fast-import", "--quiet", "--done", "--depth=0", stdin=stream)
    return run(dest, "rev-parse", "--verify", f"refs/heads/{BASE_BRANCH}").decode().strip()


def _write_import_stream(stream: BinaryIO, files: Iterable[SourceFile], message: str) -> None:
    who = f"{_WHO} <{_EMAIL}> {_EPOCH} +0000"
    text = message.encode()
    stream.write(f"commit refs/heads/{BASE_BRANCH}\nauthor {who}\ncommitter {who}\n".encode())
    stream.write(b"data %d\n%s\n" % (len(text), text))
    for file in files:
        path = os.fsencode(file.path).replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        path = path.replace(b"\n", b"\\n")
        stream.write(b'M %o inline "%s"\ndata %d\n' % (file.mode, path, len(file.data)))
        stream.write(file.data + b"\n")
    stream.write(b"done\n")


def _temporary_file(folder: Path | None = None) -> BinaryIO:
    return cast("BinaryIO", tempfile.TemporaryFile(dir=folder))


def init_bare(dest: Path) -> None:
    run(None, "init", "--quiet", "--bare", "--template=", "--object-format=sha1", "--", str(dest))


def _refuse_options(*values: str) -> None:
    for value in values:
        if value.startswith("-"):
            raise UsageError(
                f"{redact(value)!r} would be read as an option by git",
                todo="write a local path as ./PATH, and a ref by its full name (refs/tags/...)",
            )
