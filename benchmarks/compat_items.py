"""What `vpatch compat` says of a target, for the scripts that compare it with something."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from measuring import VPATCH


def items_of(target: str, *args: str) -> list[dict[str, Any]]:
    """Return the items of a target, as `--json` has them."""
    run = subprocess.run(
        [*VPATCH, "compat", target, *args, "--json"], capture_output=True, check=False
    )
    if run.returncode not in {0, 1}:
        raise SystemExit(run.stderr.decode())
    items: list[dict[str, Any]] = json.loads(run.stdout)["result"]["items"]
    return items
