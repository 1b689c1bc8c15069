"""Code for a worker of Ray: it starts a job's process, and sends its log and its files back.

Ray sends this module's functions by value. So they use Ray and Python's own library alone: the
worker may have another vpatch, or none. The process runs the code that came with the job.
"""

from __future__ import annotations

import hashlib
import io
import os
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator  # noqa: TC003 - it is pickled by value
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict

_POLL_SECONDS = 0.25
_BEAT_SECONDS = 1.0
_ANSWER_SECONDS = 60.0
_PIECE = 2**16
# In `out`; it is sent while it grows.
_LOG = "log"
_GUARD = "code/vpatch/cluster/payload/guard.py"
_SHOWN = 30


class JobOrder(TypedDict):
    """One attempt at a job; see `ClusterJob`. `digest` is that of the parcel."""

    attempt: str
    digest: str
    module: str
    job: bytes
    limit: float


class Mailbox:
    """An actor that keeps the messages of jobs until the driver takes them."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str, Any]] = []
        self.ended: set[str] = set()

    def add(self, attempt: str, kind: str, content: Any) -> bool:
        """Keep a message; return whether the attempt must end."""
        self.messages.append((attempt, kind, content))
        return attempt in self.ended

    def end(self, attempts: list[str]) -> None:
        """Make attempts end. Ray 2.60 can crash the driver if it cancels tasks."""
        self.ended.update(attempts)

    def take(self) -> list[tuple[str, str, Any]]:
        taken, self.messages = self.messages, []
        return taken


def run_job(packed: bytes, order: JobOrder, mailbox: Any) -> dict[str, bytes]:
    """Run one attempt at a job, and return the files that it wrote.

    Raises:
        RuntimeError: the process failed, or ran too long. The text says what it printed last.
    """
    import ray  # noqa: PLC0415 - of the extra `ray`

    if hashlib.sha256(packed).hexdigest() != order["digest"]:
        raise RuntimeError("what arrived is not what was sent")
    node = ray.get_runtime_context().get_node_id()
    place = {"host": socket.gethostname(), "node": node, "clock": time.time()}
    _send(mailbox, order["attempt"], "begun", place)
    work = Path(tempfile.gettempdir(), f"vpatch-job-{order['attempt']}")
    with (
        zipfile.ZipFile(io.BytesIO(packed)) as archive,
        # The guard starts before the folder exists, because this worker may die at any moment.
        _guard(archive.read(_GUARD).decode(), work, order["attempt"]),
    ):
        work.mkdir(mode=0o700)
        archive.extractall(work / "sent")
        return _run_in(work, order, mailbox)


def _send(mailbox: Any, attempt: str, kind: str, content: Any) -> None:
    import ray  # noqa: PLC0415 - of the extra `ray`

    message = mailbox.add.remote(attempt, kind, content)
    try:
        # Ray gives the CPUs of a task to another one while its main thread waits for an answer.
        with ThreadPoolExecutor(1) as other:
            ended = other.submit(ray.get, message, timeout=_ANSWER_SECONDS).result()
    except ray.exceptions.RayError:
        return  # the mailbox is started again; without a driver, Ray ends this worker
    if ended:
        raise RuntimeError("the driver ended the job")


@contextmanager
def _guard(guard_code: str, work: Path, attempt: str) -> Iterator[None]:
    """Start a process that ends the job when this block ends or this worker dies.

    Ray does not know that process. It also removes the work folder.
    """
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", guard_code, work, attempt],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as guard:
        try:
            yield
        finally:
            # The guard holds the other ends of the pipes: end of file means that it has ended.
            if guard.stdin is not None and guard.stdout is not None:
                guard.stdin.close()
                guard.stdout.read()


def _run_in(work: Path, order: JobOrder, mailbox: Any) -> dict[str, bytes]:
    for name in ("out", "tmp"):
        (work / name).mkdir()
    (work / "job.json").write_bytes(order["job"])
    environment = os.environ | {
        "PYTHONPATH": str(work / "sent" / "code"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(work / "tmp"),
        "VPATCH_JOB": order["attempt"],
    }
    with (work / "said").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", order["module"], str(work)],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    # If this raises, the guard ends the process and all that it started.
    _watch(process, work, order, mailbox)
    if process.returncode != 0:
        lines = (work / "said").read_text("utf-8", "replace").splitlines()[-_SHOWN:]
        raise RuntimeError("\n".join([f"the job ended with {process.returncode}", *lines]))
    files = sorted(path for path in (work / "out").rglob("*") if path.is_file())
    return {path.relative_to(work / "out").as_posix(): path.read_bytes() for path in files}


def _watch(process: subprocess.Popen[bytes], work: Path, order: JobOrder, mailbox: Any) -> None:
    """Wait for the process, and send its log while it grows."""
    begun = last_beat = time.monotonic()
    log, sent = work / "out" / _LOG, 0
    ended = False
    while not ended:
        ended = process.poll() is not None
        now = time.monotonic()
        if log.is_file() and log.stat().st_size > sent:
            with log.open("rb") as file:
                file.seek(sent)
                piece = file.read(_PIECE)
            sent, last_beat = sent + len(piece), now
            _send(mailbox, order["attempt"], "log", piece)
        elif now - last_beat > _BEAT_SECONDS:
            last_beat = now
            _send(mailbox, order["attempt"], "alive", None)
        if not ended and now - begun > order["limit"]:
            raise RuntimeError(f"the job was not done after {order['limit']:g} s")
        if not ended:
            time.sleep(_POLL_SECONDS)
