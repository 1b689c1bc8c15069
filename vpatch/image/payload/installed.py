"""List what pip installed, from its own reports.

    python3 installed.py REPORT...

It runs in an image, where vpatch is not, and prints a JSON list of {name, version, sha256}. Where a
package came from is left out: an index may have a password.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def installed(report: Any) -> list[dict[str, str | None]]:
    packages = []
    for one in report["install"]:
        archive = one["download_info"].get("archive_info", {})
        hashes = archive.get("hashes", {})
        # An early pip has the one hash alone.
        algorithm, _, digest = archive.get("hash", "").partition("=")
        old = digest if algorithm == "sha256" else None
        metadata = one["metadata"]
        packages.append(
            {
                "name": metadata["name"],
                "version": metadata["version"],
                "sha256": hashes.get("sha256", old),
            }
        )
    return packages


if __name__ == "__main__":
    rows = [
        package
        for file in sys.argv[1:]
        for package in installed(json.loads(Path(file).read_text(encoding="utf-8")))
    ]
    sys.stdout.write(json.dumps(rows, indent=1) + "\n")
