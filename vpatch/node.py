"""A job on a node of a cluster, as a process of its own: `python -m vpatch.node FOLDER`.

`FOLDER/job.json` says what to do, and `FOLDER/sent` has the trees. What comes of it is written to
`FOLDER/out`. The guard of the job ends the process, with all that it started.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from vpatch.cluster.job import REFUSED, RESULT
from vpatch.cluster.storage import Storage
from vpatch.commands.bench.node import BenchJob
from vpatch.commands.proofs.node import ProofJob
from vpatch.commands.smoke.node import CellJob, ImportsJob
from vpatch.errors import VpatchError
from vpatch.runs.node_job import Look, LookAnswer, Refusal, text_of
from vpatch.util import child_environment

Job = BenchJob | CellJob | ImportsJob | Look | ProofJob
JOB: TypeAdapter[Job] = TypeAdapter(Annotated[Job, Field(discriminator="do")])


def main(folder: Path) -> None:
    """Do the job of a work folder."""
    environment = _keep_what_is_needed()
    job, out = JOB.validate_json((folder / "job.json").read_bytes()), folder / "out"
    try:
        answer = job.run(folder)
    except VpatchError as error:
        refusal = Refusal(what=str(error), code=error.code)
        (out / REFUSED).write_text(text_of(refusal), encoding="utf-8")
        return
    if job.storage is not None:
        # No engine runs any more, so the node's own credentials for the storage may come back.
        os.environ.update(environment)
        if isinstance(answer, LookAnswer):
            answer.answer_probe(job.storage)
    (out / RESULT).write_text(text_of(answer), encoding="utf-8")
    if job.storage is not None:
        try:
            Storage(job.storage).leave(out, os.environ["VPATCH_JOB"], {RESULT})
        except VpatchError as error:
            # The driver shows the last line of a job's output.
            sys.exit(error.what)


def _keep_what_is_needed() -> dict[str, str]:
    """Keep only the variables that an engine needs: no tokens.

    Return what there was.
    """
    whole = dict(os.environ)
    needed = child_environment.environment_of_a_node()
    os.environ.clear()
    os.environ.update(needed)
    return whole


if __name__ == "__main__":
    main(Path(sys.argv[1]))
