"""Serve the fake GitHub, to rehearse `vpatch upstream-pr --submit`: see docs/how-to/upstream.md."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

from packaging.version import Version

from tests.fake_github.contract import Contract
from tests.fake_github.packages import installed
from tests.fake_github.repository import made_up_sha
from tests.fake_github.servers import Fake, served
from tests.fake_github.state import GitHub
from vpatch.library.catalog import find_library

TOKEN = "rehearsal"  # noqa: S105
ENDINGS = (signal.SIGINT, signal.SIGTERM)


def asked(words):
    parser = argparse.ArgumentParser(prog="python -m tests.fake_github", description=__doc__)
    repository = {"type": Path, "required": True, "metavar": "REPOSITORY"}
    parser.add_argument("--upstream", **repository, help="upstream's git repository")
    parser.add_argument("--fork", **repository, help="the bare git repository of your fork")
    parser.add_argument("--name", default="vllm-project/vllm", help="default: %(default)s")
    parser.add_argument(
        "--patches-dir", type=Path, action="append", default=[], help="a folder of your own patches"
    )
    found = parser.parse_args(words)
    for folder in (found.upstream, found.fork):
        if not folder.is_dir():
            parser.error(f"there is no folder {folder}")
    return found


def add_declared(there, patches):
    """Add the threads that patches name, each as it is declared: --submit asks for all of them."""
    declared = {
        one.ref: one
        for patch in patches
        for one in patch.declaration.upstream
        if one.ref.partition("#")[0] == there.full_name
    }
    contained = set()
    for one in sorted(declared.values(), key=lambda one: Version(one.release or "0")):
        number = int(one.ref.partition("#")[2])
        if one.is_ == "issue":
            there.add_issue("as declared", number, state=one.state or "open")
            continue
        merged = one.state == "merged"
        sha = made_up_sha(one.ref) if merged else None
        there.add_pull(
            "as declared",
            number,
            state="open" if one.state == "open" else "closed",
            merged=merged,
            merge_commit_sha=sha,
        )
        if one.release:
            contained.add(sha)
            there.tags[f"v{one.release}"] = set(contained)


def main(words=None):
    options = asked(words)
    installed()  # GitHub's published answers, from npm: it may take a minute the first time
    contract = Contract()
    with ExitStack() as stack:
        port = stack.enter_context(served(Fake, contract))
        url = f"http://127.0.0.1:{port}"
        github = contract.github = GitHub(url=url, plain_url=url, tokens={TOKEN})
        upstream = options.upstream.resolve().as_uri()
        there = github.add_repository(options.name, clone_url=upstream)
        add_declared(there, find_library(Path.cwd(), options.patches_dir).load_all())
        before = set(there.threads)
        fork = f"{github.login}/{options.name.partition('/')[2]}"
        github.add_repository(fork, fork_of=options.name, clone_url=options.fork.resolve().as_uri())
        sys.stdout.write(f"export GITHUB_API_URL={url} GH_TOKEN={TOKEN}\n")
        sys.stdout.flush()
        ended = threading.Event()
        for ending in ENDINGS:
            signal.signal(ending, lambda *_: ended.set())
        ended.wait()
        github.ended.set()
        for thread in (there.threads[number] for number in sorted(there.threads.keys() - before)):
            sys.stdout.write(
                f"\n#{thread.number} {thread.title}\n"
                f"{thread.head_repo}:{thread.head_ref} -> {thread.base_ref}\n\n{thread.body}"
            )


if __name__ == "__main__":
    main()
