"""Write patches/decisions.json anew: `python -m tests.record_decisions`.

An edit of what decides makes it void. `vpatch test --record` writes it, too, and takes longer: it
reads all that is around the code of the patches.
"""

from __future__ import annotations

from vpatch.commands.proofs.decision_records import record_decisions
from vpatch.workspace.context import Context

if __name__ == "__main__":
    with Context() as opened:
        record_decisions(opened, opened.library.load_all())
