"""A cell with vLLM's OpenAI-compatible server: what it answers, and whether it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import requests

from vpatch.engine.process import started
from vpatch.smoke.client import MODEL, AnswerError, Client
from vpatch.smoke.faults import fault
from vpatch.smoke.measured import Fault, Measured, Output, Pass, Served
from vpatch.smoke.memory import watched_memory
from vpatch.smoke.offline import outlived

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vpatch.engine.process import Child
    from vpatch.smoke.cells import Cell
    from vpatch.smoke.site import Site

_MODULE = "vllm.entrypoints.openai.api_server"
_HOST = "127.0.0.1"
_POLL_SECONDS = 0.3
# A worker's death ends the server a little later than the answers.
_DEATH_SECONDS = 15.0
_COUNTED_SECONDS = 10.0


def run_server(
    cell: Cell, model: Path | str, site: Site, room: Path, log: Path, *, port: int | None = None
) -> Measured:
    """Run a cell, and return what was seen; without a `port` one that is free is taken."""
    taken = _free(port)
    if taken is None:
        log.touch()
        return Measured(fault=Fault("does not start", f"port {port} is in use on this machine"))
    command: list[str | Path] = [site.python, "-m", _MODULE, *_arguments(cell, model, taken)]
    environment = site.environment(cell.environment, room)
    begun = time.monotonic()
    with (
        started(command, cwd=room, log=log, environment=environment) as child,
        watched_memory(child) as memory,
    ):
        client = Client(f"http://{_HOST}:{taken}", cell.timeouts.token)
        found = _await_health(child, cell, client)
        if found is not None:
            return Measured(fault=found, memory=memory.host, gpu_memory=memory.gpus)
        load_seconds = time.monotonic() - begun
        session = _Session(client, cell, begun + cell.timeouts.cell)
        found = _guarded(child, session.ask_everything)
        served, left = session.served(), 0
        if found is None:
            served, found = _stop(child, cell, served)
            left = outlived(child) if found is None else 0
        return Measured(
            load_seconds=load_seconds,
            passes=session.passes,
            memory=memory.host,
            gpu_memory=memory.gpus,
            left_behind=left,
            fault=found,
            server=served,
        )


def _free(port: int | None) -> int | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port or 0))
        except OSError:
            return None
        number: int = probe.getsockname()[1]
        return number


def _arguments(cell: Cell, model: Path | str, port: int) -> list[str]:
    words = ["--model", str(model), "--served-model-name", MODEL]
    words += ["--host", _HOST, "--port", str(port)]
    words += ["--tensor-parallel-size", str(cell.tensor_parallel)]
    if cell.speculative:
        words += ["--speculative-config", json.dumps(cell.speculative)]
    for name, value in cell.flags.items():
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            said = json.dumps(value) if isinstance(value, (dict, list, tuple)) else str(value)
            words += [f"--{name}", said]
    return words


def _await_health(child: Child, cell: Cell, client: Client) -> Fault | None:
    limit = min(cell.timeouts.start, cell.timeouts.cell)
    deadline = time.monotonic() + limit
    asking = replace(client, patience=min(10.0, client.patience))
    while time.monotonic() < deadline:
        code = child.process.poll()
        if code is not None:
            return fault("does not start", f"the server ended with {code}", child.log)
        try:
            if asking.is_healthy():
                return None
        except requests.Timeout:
            pass  # it listens, and does not answer yet
        time.sleep(_POLL_SECONDS)
    return fault("does not start", f"not healthy after {limit:g} s", child.log)


def _guarded(child: Child, ask: Callable[[], None]) -> Fault | None:
    """Ask, and say what became of the server where it does not answer any more."""
    try:
        ask()
    except requests.Timeout as error:
        return fault("hangs", f"no token in time: {error}", child.log)
    except (requests.RequestException, AnswerError) as error:
        try:
            code = child.process.wait(_DEATH_SECONDS)
        except subprocess.TimeoutExpired:
            return fault("wrong answer", str(error), child.log)
        return fault("crashed", f"the server ended with {code}", child.log)
    return None


class _Session:
    """One conversation with a server, and what came of it so far."""

    def __init__(self, client: Client, cell: Cell, deadline: float) -> None:
        self.client = client
        self.cell = cell
        self.deadline = deadline
        self.patience = client.patience
        self.settings = {"max_tokens": cell.max_tokens, **cell.sampling_arguments}
        self.passes: dict[str, Pass] = {}
        self.problems: dict[str, tuple[str, ...]] = {}
        self.not_run: dict[str, str] = {}
        self.generated = 0

    def served(self) -> Served:
        answered = sum(o.count for one in self.passes.values() for o in one.outputs)
        return Served(self.problems, self.not_run, self.generated, answered)

    def ask_everything(self) -> None:
        self.problems["/health"] = ()
        models = self.client.models()
        wrong = (f"it names {', '.join(models)}, not {MODEL}",) if models != [MODEL] else ()
        self.problems["/v1/models"] = wrong
        client, first = self.client, self.cell.prompts[0]
        # What is compiled at the first request is not the speed that is asked about.
        two = self.settings | {"max_tokens": 2}
        self._pass("warm-up", [0], lambda: [client.stream(first, two)])
        begun = time.monotonic()
        self._pass("streaming", [0], lambda: [client.stream(first, self.settings)])
        # The same in one piece may take some longer, and not for ever.
        self.patience += 10 * (time.monotonic() - begun)
        self._pass("/v1/completions", [0, 0], lambda: [self._whole(first), self._whole(first)])
        self._pass("several at once", range(len(self.cell.prompts)), self._at_once)
        if isinstance(first, str):
            self._ask_chat(first)
        else:
            self.not_run["chat"] = "the prompts are of token ids"

    def _whole(self, prompt: Any) -> Output:
        return self.client.complete(prompt, self.settings, patience=self._left())

    def _at_once(self) -> list[Output]:
        prompts = self.cell.prompts
        pool = ThreadPoolExecutor(len(prompts))
        try:
            return list(pool.map(lambda prompt: self.client.stream(prompt, self.settings), prompts))
        finally:
            # Not waited for: after an interrupt, they end with the server.
            pool.shutdown(wait=False, cancel_futures=True)

    def _ask_chat(self, text: str) -> None:
        client, settings = self.client, self.settings
        try:
            self._pass(
                "chat",
                [0, 0],
                lambda: [
                    client.chat(text, settings, patience=self._left()),
                    client.stream_chat(text, settings),
                ],
            )
        except AnswerError as error:
            if "chat template" not in str(error):
                raise
            self.not_run["chat"] = "the model has no chat template"

    def _pass(self, name: str, asked: Sequence[int], ask: Callable[[], list[Output]]) -> None:
        """Ask, with vLLM's counters before and after: they follow the answers a little later."""
        self._left()
        before = self.client.counters()
        begun = time.monotonic()
        outputs = tuple(ask())
        seconds = time.monotonic() - begun
        wanted = before[0] + sum(output.count for output in outputs)
        deadline = time.monotonic() + _COUNTED_SECONDS
        while True:
            after = self.client.counters()
            if after[0] >= wanted or time.monotonic() > deadline:
                break
            time.sleep(_POLL_SECONDS)
        self.generated += after[0] - before[0]
        self.passes[name] = Pass(tuple(asked), seconds, outputs, after[1] - before[1])
        self.problems[name] = ()

    def _left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise requests.Timeout(f"not done after {self.cell.timeouts.cell:g} s")
        return min(self.patience, left)


def _stop(child: Child, cell: Cell, served: Served) -> tuple[Served, Fault | None]:
    begun = time.monotonic()
    child.process.send_signal(signal.SIGTERM)
    try:
        code = child.process.wait(cell.timeouts.stop)
    except subprocess.TimeoutExpired:
        what = f"asked to end, it was there {cell.timeouts.stop:g} s later"
        return served, fault("hangs", what, child.log)
    return replace(served, stop_seconds=time.monotonic() - begun, stop_code=code), None
