"""A cell with vLLM's OpenAI-compatible server: what it answers, and whether it ends."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import requests

from vpatch.commands.smoke.offline import outlived
from vpatch.engine import PAYLOAD
from vpatch.harness.client import MODEL, AnswerError, Client, TooLongError
from vpatch.harness.faults import fault
from vpatch.harness.launch import await_health, command_of, free_port, stop, url_of
from vpatch.harness.measured import Fault, Measured, Output, Pass, Served
from vpatch.harness.memory import watched_memory
from vpatch.harness.sandbox import run_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vpatch.commands.smoke.cells import Cell
    from vpatch.engine.process import Running
    from vpatch.harness.sandbox import Sandbox

_DIGESTS = PAYLOAD / "digests.py"
# What a server is asked, by the names of the checks.
_ASKED = ("/health", "/v1/models", "streaming", "/v1/completions", "several at once", "chat")
_SEVERAL = 3
# A worker's death ends the server a little later than the answers.
_DEATH_SECONDS = 15.0
_COUNTED_SECONDS = 10.0


def run_server(
    cell: Cell,
    model: Path | str,
    sandbox: Sandbox,
    workdir: Path,
    log: Path,
    *,
    port: int | None = None,
) -> Measured:
    """Run a cell, and return what was seen; without a `port` one that is free is taken."""
    taken = free_port(port)
    if taken is None:
        log.touch()
        return Measured(fault=Fault("does not start", f"port {port} is in use on this machine"))
    digests = _digests(sandbox, cell, workdir)
    command = command_of(cell, model, sandbox, taken)
    begun = time.monotonic()
    with (
        sandbox.started(command, workdir=workdir, log=log, extra_env=cell.environment) as child,
        watched_memory(child) as memory,
    ):
        deadline = begun + cell.timeouts.cell
        client = Client(url_of(taken), cell.timeouts.token, deadline)
        measured = _measure(child, cell, client, begun)
        return replace(measured, memory=memory.host, gpu_memory=memory.gpus, digests=digests)


def _measure(child: Running, cell: Cell, client: Client, begun: float) -> Measured:
    """Await a server that was started at `begun`, ask it everything, and stop it."""
    failure = await_health(child, min(cell.timeouts.start, cell.timeouts.cell), client)
    if failure is not None:
        return Measured(fault=failure)
    load_seconds = time.monotonic() - begun
    session = _ServerSession(client, cell)
    failure = _guard(child, cell, session.ask_everything)
    served, survivors = session.served(), 0
    if failure is None:
        begun = time.monotonic()
        code = stop(child, cell.timeouts)
        if isinstance(code, Fault):
            failure = code
        else:
            served = replace(served, stop_seconds=time.monotonic() - begun, stop_code=code)
            survivors = outlived(child)
    return Measured(
        load_seconds=load_seconds,
        passes=session.passes,
        left_behind=survivors,
        fault=failure,
        server=served,
    )


def _digests(sandbox: Sandbox, cell: Cell, workdir: Path) -> dict[str, str | None]:
    """What a process of the server's environment would import; none where it could not be asked."""
    files, result = workdir / "files.json", workdir / "digests.json"
    files.write_text(json.dumps(sorted(sandbox.digests)), encoding="utf-8")
    command = [sandbox.python, _DIGESTS, files, result]
    log = workdir / "digests.log"
    ended = run_in(
        sandbox,
        command,
        workdir=workdir,
        log=log,
        extra_env=cell.environment,
        timeout=cell.timeouts.start,
    )
    if ended.code != 0:
        return {}
    digests: dict[str, str | None] = json.loads(result.read_text(encoding="utf-8"))
    return digests


def _guard(child: Running, cell: Cell, ask: Callable[[], None]) -> Fault | None:
    """Ask, and say what became of the server where it does not answer any more."""
    try:
        ask()
    except TooLongError:
        what = f"not done after {cell.timeouts.cell:g} s"
        return fault("takes too long", what, child.log)
    except requests.Timeout as error:
        return fault("hangs", f"no token in time: {error}", child.log)
    except (requests.RequestException, AnswerError) as error:
        code = child.wait(_DEATH_SECONDS)
        if code is None:
            return fault("wrong answer", str(error), child.log)
        return fault("crashed", f"the server ended with {code}", child.log)
    return None


class _ServerSession:
    """One conversation with a server, and what came of it so far."""

    def __init__(self, client: Client, cell: Cell) -> None:
        self.client = client
        self.cell = cell
        self.patience = client.patience
        self.settings = {"max_tokens": cell.max_tokens, **cell.sampling_arguments}
        self.passes: dict[str, Pass] = {}
        self.problems: dict[str, tuple[str, ...]] = {}
        self.not_run: dict[str, str] = {}
        self.generated = 0

    def served(self) -> Served:
        answered = sum(o.count for one in self.passes.values() for o in one.outputs)
        reasons = {name: "it did not come so far" for name in _ASKED if name not in self.problems}
        return Served(self.problems, reasons | self.not_run, self.generated, answered)

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
        self._look_at_pieces()
        # The same in one piece may take longer, but must end.
        self.patience += 10 * (time.monotonic() - begun)
        self._pass("/v1/completions", [0, 0], lambda: [self._whole(first), self._whole(first)])
        several = max(_SEVERAL, len(self.cell.prompts))
        asked = [number % len(self.cell.prompts) for number in range(several)]
        self._pass("several at once", asked, lambda: self._at_once(asked))
        if isinstance(first, str):
            self._ask_chat(first)
        else:
            self.not_run["chat"] = "the prompts are of token ids"

    def _whole(self, prompt: Any) -> Output:
        return self.client.complete(prompt, self.settings, patience=self._timeout())

    def _look_at_pieces(self) -> None:
        (output,) = self.passes["streaming"].outputs
        # A step makes k + 1 tokens at most, and a piece has those of one step, or of few.
        if output.pieces == 1 and output.count > 2 * (self.cell.k + 1):
            self.problems["streaming"] = (f"all {output.count} tokens came in one piece",)

    def _at_once(self, asked: Sequence[int]) -> list[Output]:
        prompts = [self.cell.prompts[number] for number in asked]
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
                    client.chat(text, settings, patience=self._timeout()),
                    client.stream_chat(text, settings),
                ],
            )
        except AnswerError as error:
            if "chat template" not in str(error):
                raise
            self.not_run["chat"] = "the model has no chat template"

    def _pass(self, name: str, asked: Sequence[int], ask: Callable[[], list[Output]]) -> None:
        """Ask, with vLLM's counters before and after."""
        self._timeout()
        before = self.client.counters()
        begun = time.monotonic()
        outputs = tuple(ask())
        seconds = time.monotonic() - begun
        wanted = before.generated + sum(output.count for output in outputs)
        after = self.client.counters_after(wanted, _COUNTED_SECONDS)
        self.generated += after.generated - before.generated
        self.passes[name] = Pass(
            tuple(asked),
            seconds,
            outputs,
            after.counters - before.counters,
            after.preemptions - before.preemptions,
            after.cached - before.cached,
        )
        self.problems[name] = ()

    def _timeout(self) -> float:
        seconds = self.client.deadline - time.monotonic()
        if seconds <= 0:
            raise TooLongError
        return min(self.patience, seconds)
