"""Put the version of vpatch, and a link to the repository, on each page of the site.

mkdocs calls `on_config` before it builds; mkdocs.yml names this file under `hooks`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch import __version__

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

_ROOT = Path(__file__).parents[1]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name the version in the header, and link to the repository that the site is built from."""
    config.site_name = f"{config.site_name} {__version__}"
    url = repository(os.environ.get("GITHUB_REPOSITORY"), _origin())
    if url is not None:
        config.repo_url = url
        config.repo_name = url.partition("://")[2].partition("/")[2]
    return config


def repository(on_github: str | None, origin: str) -> str | None:
    """Return the page of a repository; None if its origin has no page that vpatch knows.

    `on_github` is OWNER/NAME in a job of GitHub Actions.
    """
    if on_github:
        return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{on_github}"
    address = origin.removesuffix(".git")
    if address.startswith("git@github.com:"):
        return address.replace("git@github.com:", "https://github.com/")
    return address if address.startswith("https://") and "@" not in address else None


def _origin() -> str:
    command = ["git", "config", "--get", "remote.origin.url"]
    done = subprocess.run(command, cwd=_ROOT, check=False, capture_output=True, text=True)
    return done.stdout.strip()
