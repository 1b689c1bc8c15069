"""The only module that runs git."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from vpatch.errors import VpatchError
from vpatch.git.errors import GitError, GitMissingError, failure
from vpatch.git.files import SourceFile
from vpatch.util.child_environment import without_secrets
from vpatch.util.run_log import command_line, hide, timed
from vpatch.util.untrusted import LARGEST_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_log = logging.getLogger(__name__)
BASE_BRANCH = "base"
FULL_COMMIT = re.compile(r"[0-9a-f]{40}")
# Bytes go in and out of a repository as they are, whatever a .gitattributes of the tree says.
EXACT_BYTES = "* -text -eol -ident -filter -working-tree-encoding\n"

_UNQUOTED = re.compile(rb'[\x00-\x1f\x7f"\\]')
_WHO = "vpatch"
VPATCH_EMAIL = "vpatch@localhost"
_EPOCH = 1577836800  # 2020-01-01T00:00:00Z
# For a remote: no program of the repository's runs, and a connection that is silent for a minute is
# given up.
HOOKLESS = ("-c", f"core.hooksPath={os.devnull}")
PATIENT = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60")
WITHOUT_MAINTENANCE = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")
# What git says is looked into, and shown.
_ENGLISH = {"LANGUAGE": "C", "LC_ALL": "C"}
_PINNED_CONFIG = {
    # As many as there are cores.
    "checkout.workers": "0",
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
    "tag.gpgSign": "false",
}
# How the user's own git gets to a remote. All other variables for git point it at another
# repository (git rev-parse --local-env-vars), at other programs, or at files to write.
_OF_THE_WAY = re.compile(
    "GIT_(ALLOW_PROTOCOL|ASKPASS|CONFIG_(COUNT|GLOBAL|NOSYSTEM|PARAMETERS|SYSTEM|(KEY|VALUE)_[0-9]+)"
    "|CURL_VERBOSE|EXEC_PATH|HTTP_.*|PROTOCOL_FROM_USER|PROXY_.*|SSH|SSH_COMMAND|SSH_VARIANT|SSL_.*"
    "|TRACE.*)"
)


@dataclass(frozen=True)
class Environment:
    """Variables for git, and which of the inherited ones to drop; git gets no token and no key."""

    values: Mapping[str, str]
    drops: Callable[[str], bool]

    def of(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return all variables that git gets."""
        allowed = {n: value for n, value in without_secrets(inherited).items() if not self.drops(n)}
        return {**allowed, **_ENGLISH, **self.values}


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
        values |= {
            f"GIT_{role}_NAME": _WHO,
            f"GIT_{role}_EMAIL": VPATCH_EMAIL,
            f"GIT_{role}_DATE": date,
        }
    for number, (key, value) in enumerate(_PINNED_CONFIG.items()):
        values |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return values


# For everything local: the same result on any machine, whatever the user's settings.
PINNED = Environment(
    _pinned_values(), lambda name: name.startswith("GIT_") and name != "GIT_EXEC_PATH"
)
# For what talks to a remote: the user's own credentials, proxies and insteadOf.
USER = Environment(
    {"GIT_TERMINAL_PROMPT": "0"},
    lambda name: name.startswith("GIT_") and not _OF_THE_WAY.fullmatch(name),
)


@dataclass(frozen=True)
class FoundRepository:
    """A repository that others may have prepared, behind a git folder of our own.

    See `vpatch.git.found`. `work_tree` is None for a bare one. `own_dir` is the folder that others
    made: the user's settings may be for some of these (includeIf).
    """

    git_dir: Path
    work_tree: Path | None
    own_dir: Path | None = None


Repository = Path | FoundRepository


def run(
    repo: Repository | None,
    *args: str,
    stdin: bytes | BinaryIO = b"",
    stdout: BinaryIO | None = None,
    env: Environment = PINNED,
) -> bytes:
    """Run git in `repo` and return what it prints, or write that to `stdout`.

    A path is that of a repository that vpatch made itself. git gets its exact git folder, and so
    never looks for another one. Without `repo`, git runs where there is no repository at all.

    Raises:
        GitMissingError: there is no git.
        RemoteUnreachableError: git cannot reach the remote.
        GitError: git failed for another reason.
    """
    folder, place = _place(repo)
    variables = env.of(os.environ)
    if env is USER and isinstance(repo, FoundRepository) and repo.own_dir is not None:
        # git reads the settings in the common folder, which is ours. It runs there, too, since a
        # helper of the user's may import from the current folder.
        variables |= {"GIT_DIR": str(repo.own_dir.absolute()), "GIT_COMMON_DIR": str(repo.git_dir)}
        place = ["-C", str(repo.git_dir)]
    shown = ["git", *(["-C", str(folder)] if repo else []), *args]
    # With the user's settings, git may reach a remote, which takes time.
    level = logging.INFO if env is USER else logging.DEBUG
    file, text = (None, stdin) if isinstance(stdin, bytes) else (stdin, None)
    if file is not None:
        file.seek(0)
    with timed(_log, level, command_line(shown)):
        try:
            done = subprocess.run(
                ["git", *place, *args],
                stdin=file,
                input=text,
                stdout=stdout or subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=variables,
                check=False,
            )
        except (FileNotFoundError, PermissionError) as error:
            hint = "install git, or put it on PATH"
            raise GitMissingError("git", None, str(error), hint=hint) from error
    if done.returncode:
        message = done.stderr.decode(errors="replace")
        raise failure(" ".join(shown), done.returncode, message, remote=env is USER)
    return done.stdout or b""


def text_from(repo: Repository, *args: str) -> str:
    """Run git, and return what it prints as text, without white space around it."""
    return run(repo, *args).decode(errors="replace").strip()


def list_paths(repo: Repository, command: str, *args: str) -> list[str]:
    """Run a command of git that lists paths, and return them."""
    listed = run(repo, command, "-z", *args)
    return [os.fsdecode(path) for path in listed.split(b"\0")[:-1]]


def _place(repo: Repository | None) -> tuple[Path, list[str]]:
    """The folder that git runs in, and the options that say so."""
    if repo is None:
        folder = Path("/")
        return folder, ["-C", str(folder)]
    if isinstance(repo, Path):
        folder = repo.absolute()
        inside = folder / ".git"
        repo = FoundRepository(inside, folder) if inside.is_dir() else FoundRepository(folder, None)
    folder = repo.work_tree or repo.git_dir
    tree = [] if repo.work_tree is None else [f"--work-tree={repo.work_tree}"]
    return folder, ["-C", str(folder), f"--git-dir={repo.git_dir}", *tree]


def credential(url: str) -> str | None:
    """Ask git's credential helpers, and nobody at a terminal, for the password to `url`."""
    asked = Environment({**USER.values, "GIT_ASKPASS": "false", "SSH_ASKPASS": "false"}, USER.drops)
    try:
        filled = run(None, "credential", "fill", stdin=f"url={url}\n\n".encode(), env=asked)
    except GitError:
        return None  # no helper has it
    lines = (line.partition("=") for line in filled.decode().splitlines())
    password = next((value for key, _, value in lines if key == "password" and value), None)
    hide(password)
    return password


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
            if size > LARGEST_FILE:
                raise VpatchError(
                    f"{name} has {size} bytes, more than the limit of {LARGEST_FILE}",
                    where=f"{repo.name}: {commit}",
                    hint="name a commit without it",
                    code="git.file-too-large",
                )
            yield SourceFile(name, git_mode, contents.read(size))
            contents.read(1)


def create_repository(folder: Path) -> None:
    """Make an empty repository with a work tree, whose files git takes byte for byte."""
    options = ("--quiet", "--template=", "--object-format=sha1")
    run(None, "init", *options, "--", str(folder.absolute()))
    (folder / ".git" / "info").mkdir()
    (folder / ".git" / "info" / "attributes").write_text(EXACT_BYTES, encoding="utf-8")


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


def base_identity() -> str:
    """The author and the committer of every commit that vpatch makes, with the time."""
    return f"{_WHO} <{VPATCH_EMAIL}> {_EPOCH} +0000"


def _write_import_stream(stream: BinaryIO, files: Iterable[SourceFile], message: str) -> None:
    who = base_identity()
    text = message.encode()
    stream.write(f"commit refs/heads/{BASE_BRANCH}\nauthor {who}\ncommitter {who}\n".encode())
    stream.write(b"data %d\n%s\n" % (len(text), text))
    for file in files:
        stream.write(b"M %o inline %s\n" % (file.mode, quoted(file.path)))
        stream.write(b"data %d\n" % len(file.data))
        stream.write(file.data + b"\n")
    stream.write(b"done\n")


def quoted(path: str) -> bytes:
    """Quote a path for `git fast-import`, whatever bytes it has."""
    return b'"%s"' % _UNQUOTED.sub(lambda byte: b"\\%03o" % ord(byte[0]), os.fsencode(path))


def _temporary_file(folder: Path | None = None) -> BinaryIO:
    return cast("BinaryIO", tempfile.TemporaryFile(dir=folder))


def init_bare(dest: Path) -> None:
    run(
        None, "init", "--quiet", "--bare", "--template=", "--object-format=sha1", "--",
        str(dest.absolute()),
    )  # fmt: skip
