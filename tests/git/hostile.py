"""A repository whose settings name a program wherever git takes one."""

from __future__ import annotations

import shutil

ATTRIBUTES = "* filter=evil diff=evil merge=evil\n"


def prepare(git_dir, work_tree, script):
    """Every setting of git's that names a program, each running `script`."""
    (git_dir / "hidden.config").write_text(f"[core]\n\tfsmonitor = {script}\n")
    with (git_dir / "config").open("a") as config:
        config.write(f"""
[core]
    fsmonitor = {script}
    hooksPath = {script.parent}
    sshCommand = {script}
    pager = {script}
    editor = {script}
    askPass = {script}
    gitProxy = {script}
    alternateRefsCommand = {script}
    attributesFile = {git_dir}/evil-attributes
    worktree = {work_tree}
[filter "evil"]
    clean = {script}
    smudge = {script}
    process = {script}
    required = true
[diff]
    external = {script}
[diff "evil"]
    command = {script}
    textconv = {script}
[merge "evil"]
    driver = {script}
[gpg]
    program = {script}
[gpg "ssh"]
    defaultKeyCommand = {script}
[credential]
    helper = !{script}
[alias]
    status = !{script}
    ls-files = !{script}
[include]
    path = {git_dir}/hidden.config
[uploadpack]
    packObjectsHook = {script}
[remote "origin"]
    url = ext::{script}
    uploadpack = {script}
    promisor = true
[protocol "ext"]
    allow = always
[extensions]
    partialClone = origin
[pager]
    status = {script}
[trace2]
    eventTarget = {script}
""")
    (git_dir / "evil-attributes").write_text(ATTRIBUTES)
    (git_dir / "info").mkdir(exist_ok=True)
    (git_dir / "info" / "attributes").write_text(ATTRIBUTES)
    (work_tree / ".gitattributes").write_text(ATTRIBUTES)
    (git_dir / "hooks").mkdir(exist_ok=True)
    names = ("post-checkout", "reference-transaction", "post-index-change", "fsmonitor-watchman")
    for folder in (git_dir / "hooks", script.parent):
        for name in (*names, "pre-auto-gc", "post-merge", "post-rewrite"):
            if not (folder / name).exists():
                shutil.copy(script, folder / name)
