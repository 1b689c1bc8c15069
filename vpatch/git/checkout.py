"""git for checkouts: patches as commits, what a user changed in one, diffs of fixed bytes."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vpatch.git.command import (
    BASE_BRANCH,
    base_identity,
    create_repository,
    list_paths,
    quoted,
    run,
    text_from,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from vpatch.git.command import FoundRepository, Repository

PATCHED_BRANCH = "vpatch"
NEW = -1
_SECONDS = 2 * 10**9
_DIFF_OPTIONS = [
    *["--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--full-index"],
    *["--src-prefix=a/", "--dst-prefix=b/", "--diff-algorithm=myers", "--no-indent-heuristic"],
    *["--unified=3", "--inter-hunk-context=0", "--submodule=short", "--ignore-submodules=all"],
]


@dataclass(frozen=True)
class NewCommit:
    """A commit to be made: its message, and what it makes of some files; None removes a file."""

    message: str
    files: Mapping[str, bytes | None]

    @property
    def subject(self) -> str:
        return self.message.partition("\n")[0]


class ChangedPath(NamedTuple):
    """A path that is not as in a commit, with its modes in git; 0 means no file.

    `NEW` is the mode of a file that git does not know.
    """

    path: str
    before: int
    after: int


def create_checkout(folder: Path, base: Path, commit: str, ignored: Sequence[str]) -> None:
    """Make a repository with the objects of `base` and its one commit as a branch; no files yet.

    The pack is linked, not copied, where the file system allows. `ignored` are paths at the root
    that git is not to see.
    """
    create_repository(folder)
    info, packs = folder / ".git" / "info", folder / ".git" / "objects" / "pack"
    (info / "exclude").write_text("".join(f"/{path}\n" for path in ignored), encoding="utf-8")
    packs.mkdir(exist_ok=True)
    for pack in (base / "objects" / "pack").iterdir():
        try:
            os.link(pack, packs / pack.name)
        except OSError:  # another file system, or one without links
            shutil.copyfile(pack, packs / pack.name)
    run(folder, "update-ref", f"refs/heads/{BASE_BRANCH}", commit)


def add_commits(
    repo: Path, base: str, commits: Sequence[NewCommit], ref: str = f"refs/heads/{PATCHED_BRANCH}"
) -> list[str]:
    """Put a commit each on top of `base`, and the last one on a ref: the branch `vpatch`.

    Returns the commits' ids, which depend on the arguments alone.
    """
    if not commits:
        run(repo, "update-ref", ref, base)
        return []
    stream = commit_stream(repo, ref, base, commits, base_identity())
    marks = repo / ".git" / "vpatch-marks"
    # One pack is written in half the time of as many files as there are objects, and is synced.
    options = ["-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--done"]
    # The ref may have had other commits.
    options.append("--force")
    run(repo, *options, f"--export-marks={marks.absolute()}", stdin=stream)
    ids = dict(line.split(" ") for line in marks.read_text(encoding="ascii").splitlines())
    marks.unlink()
    return [ids[f":{number}"] for number in range(1, len(commits) + 1)]


def commit_stream(
    repo: Repository, ref: str, parent: str, commits: Sequence[NewCommit], who: str
) -> bytes:
    """Return what `git fast-import` reads for commits on top of `parent`, the last one at `ref`.

    A file that is there keeps its mode. `who` made them, and when. Commit N has the mark N, from 1.
    """
    modes = _modes_of(repo, parent, sorted({path for one in commits for path in one.files}))
    lines = [f"reset {ref}\nfrom {parent}\n\n".encode()]
    for number, commit in enumerate(commits, start=1):
        lines.append(f"commit {ref}\nmark :{number}\nauthor {who}\ncommitter {who}\n".encode())
        lines.append(_data(commit.message.encode()))
        for path, content in sorted(commit.files.items()):
            if content is None:
                lines.append(b"D %s\n" % quoted(path))
            else:
                lines.append(b"M %s inline %s\n" % (modes.get(path, b"100644"), quoted(path)))
                lines.append(_data(content))
    return b"".join([*lines, b"done\n"])


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def _modes_of(repo: Repository, commit: str, paths: Sequence[str]) -> dict[str, bytes]:
    """Return the modes, as git writes them, of those of some files that a commit has."""
    listed = run(repo, "ls-tree", "-z", "--full-tree", commit, "--", *paths)
    entries = (line.partition(b"\t") for line in listed.split(b"\0")[:-1])
    return {os.fsdecode(path): facts.split()[0] for facts, _, path in entries}


def check_out(repo: Path, branch: str) -> None:
    """Write the files of a branch into a checkout that nobody has touched.

    Where another branch is checked out, git looks at the files that differ alone.
    """
    index, head = repo / ".git" / "index", repo / ".git" / "HEAD"
    written = ["HEAD"] if index.exists() else []
    if written:
        # git reads each file again that is not older than the index, in seconds: somebody may have
        # changed it since. Nobody has.
        later = index.stat().st_mtime_ns + _SECONDS
        os.utime(index, ns=(later, later))
    # Not `git checkout`, which would look at every file once more.
    run(repo, "read-tree", "-m", "-u", *written, branch)
    ref = f"refs/heads/{branch}"
    # A line in the log of HEAD is for another branch alone, however the files got there.
    if head.read_text(encoding="utf-8").strip() != f"ref: {ref}":
        run(repo, "symbolic-ref", "HEAD", ref)


def keep_in_work_tree(repo: Path, commit: str) -> None:
    """Put the branch that is checked out back to a commit. What came after it is staged then.

    The ref `refs/vpatch/patched` keeps it.
    """
    run(repo, "update-ref", "refs/vpatch/patched", "HEAD")
    run(repo, "update-ref", "HEAD", commit)


def put_head_at(repo: Path, commit: str) -> None:
    """Put what is checked out at a commit. The files of the work tree stay as they are."""
    run(repo, "reset", "--quiet", "--mixed", commit)


def current_branch(repo: Repository) -> str | None:
    """The branch that is checked out; None where HEAD is a commit."""
    return text_from(repo, "branch", "--show-current") or None


def changed_files(repo: Repository) -> list[str]:
    """Files that differ from the commit that is checked out, and those that git does not know.

    Without submodules: git would run in each of them, by its settings. See `submodules`.
    """
    listed = run(
        repo, "--no-optional-locks", "status", "--porcelain=v1", "-z", "--untracked-files=all",
        "--no-renames", "--ignore-submodules=all",
    )  # fmt: skip
    return sorted(os.fsdecode(entry[3:]) for entry in listed.split(b"\0")[:-1])


def changed_paths(repo: Repository, commit: str) -> list[ChangedPath]:
    """Return what the work tree has otherwise than a commit, with files that git does not know.

    Files that git is told to ignore, or not to look at, are left out.
    """
    raw = run(
        repo, "--no-optional-locks", "diff", "--raw", "-z", "--no-renames", "--no-ext-diff",
        "--ignore-submodules=all", commit, "--",
    )  # fmt: skip
    facts, paths = raw.split(b"\0")[:-1:2], raw.split(b"\0")[1::2]
    changed = {
        os.fsdecode(path): (int(modes[0][1:], 8), int(modes[1], 8))
        for modes, path in zip((one.split() for one in facts), paths, strict=True)
    }
    for path in list_paths(repo, "ls-files", "--others", "--exclude-standard"):
        # git does not know a file any more that the commit has, if somebody removed it there.
        changed[path] = (changed.get(path, (0, 0))[0], NEW)
    return [ChangedPath(path, before, after) for path, (before, after) in sorted(changed.items())]


def submodules(repo: Repository) -> list[str]:
    """Paths at which the index has another repository; a checkout of vpatch has none."""
    listed = run(repo, "ls-files", "--stage", "-z").split(b"\0")[:-1]
    entries = (line.partition(b"\t") for line in listed if line.startswith(b"160000 "))
    return sorted(os.fsdecode(path) for _, _, path in entries)


def refs(repo: Repository) -> dict[str, str]:
    """Every branch, tag and stash, and what it points to."""
    listed = run(repo, "for-each-ref", "--format=%(refname) %(objectname)").decode(
        errors="backslashreplace"
    )
    return dict(line.split(" ") for line in listed.splitlines())


def lost_commits(repo: Repository) -> list[str]:
    """Commits that no branch has any more, and that only the reflog still knows."""
    return run(repo, "rev-list", "--reflog", "--not", "--all").decode().split()


def messages(repo: Repository, base: str, head: str) -> list[str]:
    """The messages of the commits on top of `base`, the oldest first."""
    listed = text_from(repo, "log", "-z", "--reverse", "--format=%B", f"{base}..{head}")
    return [message.strip() for message in listed.split("\0")[:-1]]


def unmerged_refs(repo: Repository) -> list[str]:
    """Branches, tags and stashes that have commits which what is checked out does not have."""
    listed = run(repo, "for-each-ref", "--no-merged=HEAD", "--format=%(refname)")
    return listed.decode(errors="backslashreplace").splitlines()


def worktrees(checkout: Path) -> list[str]:
    """Further worktrees of a checkout's repository."""
    folder = checkout / ".git" / "worktrees"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def hidden_files(repo: Repository) -> list[str]:
    """Files whose changes git is told not to look at (skip-worktree, assume-unchanged)."""
    listed = run(repo, "ls-files", "-v", "-z").split(b"\0")[:-1]
    return sorted(os.fsdecode(entry[2:]) for entry in listed if not entry.startswith(b"H"))


def ignored_files(repo: Repository) -> list[str]:
    """Files that git is told to ignore, build outputs for instance."""
    return sorted(list_paths(repo, "ls-files", "--others", "--ignored", "--exclude-standard"))


def tracked_and_ignored(repo: Repository) -> list[str]:
    """Files that git knows, although the tree's .gitignore names them."""
    return list_paths(repo, "ls-files", "--cached", "--ignored", "--exclude-standard")


def diff(repo: Path, before: str, after: str) -> bytes:
    """The difference of two commits, in bytes that depend on the two alone."""
    return run(repo, "diff-tree", "-p", "-r", *_DIFF_OPTIONS, before, after)


def diff_of_work_tree(repo: Repository, commit: str) -> bytes:
    """How the work tree differs from a commit, with files that git does not know.

    All of it is in the index then.
    """
    run(repo, "add", "--all")
    return run(repo, "diff", "--cached", "--binary", *_DIFF_OPTIONS, commit)


def mail(repo: Path, commit: str) -> bytes:
    """A commit as a mail that `git am` and `patch -p1` read, in bytes that depend on it alone."""
    options = ["--stdout", "--zero-commit", "--no-signature", "--no-stat", "--no-numbered"]
    return run(repo, "format-patch", *options, *_DIFF_OPTIONS, "-1", commit)


def uncommitted(repo: Path) -> bytes:
    """The difference of the files that git tracks to what is committed."""
    return run(repo, "diff", "--no-color", "--no-ext-diff", "--unified=1", "HEAD")


def restore(repo: Path) -> None:
    """Take back every change of the files that git tracks."""
    run(repo, "checkout", "--quiet", "--force", "HEAD", "--", ".")


def clone(checkout: FoundRepository, folder: Path, *, tag: str) -> None:
    """Clone a checkout, with what is committed and nothing else, and tag what is checked out.

    A build may ask git for the version: `git describe` finds the tag.
    """
    paths = (str(checkout.git_dir), str(folder.absolute()))
    run(None, "clone", "--quiet", "--template=", "--no-local", "--", *paths)
    run(folder, "tag", "--annotate", "--message", tag, tag)


def tracked_files(repo: Path) -> set[str]:
    """Files that git knows."""
    return set(list_paths(repo, "ls-files"))


def overlook(repo: Path, paths: Iterable[str]) -> None:
    """Make git not look at files that it knows: a change of one does not count then."""
    names = b"".join(os.fsencode(path) + b"\0" for path in sorted(paths))
    run(repo, "update-index", "--skip-worktree", "-z", "--stdin", stdin=names)
