"""Starting vLLM's OpenAI-compatible server, waiting until it is healthy, and ending it."""

from __future__ import annotations

import json
import random
import signal
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import requests

from vpatch.errors import UnavailableError
from vpatch.harness.client import MODEL
from vpatch.harness.faults import fault, start_hangs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pydantic import JsonValue

    from vpatch.declare.smoke import Timeouts
    from vpatch.engine.process import Running
    from vpatch.harness.client import Client
    from vpatch.harness.measured import Fault
    from vpatch.harness.sandbox import Sandbox

_MODULE = "vllm.entrypoints.openai.api_server"
_HOST = "127.0.0.1"
_POLL_SECONDS = 0.3
# Below the ports that Linux (from 32768 on by default) and macOS (49152) give to whoever asks for
# any. Also below those of Kubernetes' services (30000) and vLLM's default (29500). A server binds
# seconds after it was told where.
_PORTS = range(20000, 29000)


class Launch(Protocol):
    """What a server is started with. `flags` are spelt as `vllm serve` spells them."""

    @property
    def tensor_parallel(self) -> int: ...

    @property
    def speculative(self) -> Mapping[str, JsonValue] | None: ...

    @property
    def flags(self) -> Mapping[str, JsonValue]: ...

    @property
    def timeouts(self) -> Timeouts: ...


def free_port(port: int | None) -> int | None:
    """Return the port, or None where it is in use; without one, return one that is free.

    Raises:
        UnavailableError: no port is free.
    """
    if port is not None:
        # A server that ended leaves connections behind, which forbid nothing.
        return port if _is_free(port, reuse=True) else None
    # A server that has bound a port, and does not listen yet, would let it be bound again.
    for chosen in random.sample(_PORTS, len(_PORTS)):
        if _is_free(chosen, reuse=False):
            return chosen
    raise UnavailableError(
        f"no port from {_PORTS.start} to {_PORTS.stop - 1} is free",
        where=_HOST,
        hint="give --port",
        code="harness.no-free-port",
    )


def _is_free(port: int, *, reuse: bool) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
        return True


def url_of(port: int) -> str:
    return f"http://{_HOST}:{port}"


def command_of(launch: Launch, model: Path | str, sandbox: Sandbox, port: int) -> list[str | Path]:
    """Return the command that starts the server of a model, which it calls `client.MODEL`."""
    words = ["--model", str(model), "--served-model-name", MODEL]
    words += ["--host", _HOST, "--port", str(port)]
    words += ["--tensor-parallel-size", str(launch.tensor_parallel)]
    if launch.speculative:
        words += ["--speculative-config", json.dumps(launch.speculative)]
    # As LLM.generate does: the checkpoint's own penalties would make other texts.
    flags = {"generation-config": "vllm", **launch.flags}
    for name, value in flags.items():
        words += flag_words(name, value)
    return [sandbox.python, "-m", _MODULE, *words]


def flag_words(name: str, value: object) -> list[str]:
    """Return a flag of a plan as `vllm serve` takes it."""
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, (list, tuple)):
        return [f"--{name}", *map(str, value)]
    return [f"--{name}", json.dumps(value) if isinstance(value, dict) else str(value)]


def await_health(child: Running, limit: float, client: Client) -> Fault | None:
    """Wait for so many seconds until the server is healthy; return why it is not, if it is not."""
    deadline = time.monotonic() + limit
    asking = replace(client, patience=min(10.0, client.patience))
    while time.monotonic() < deadline:
        code = child.poll()
        if code is not None:
            return fault("does not start", f"the server ended with {code}", child.log)
        try:
            if asking.is_healthy():
                return None
        except requests.Timeout:
            pass  # it listens, and does not answer yet
        time.sleep(_POLL_SECONDS)
    return start_hangs(f"not healthy after {limit:g} s", child.log)


def stop(child: Running, timeouts: Timeouts) -> int | Fault:
    """Ask a server to end; return its exit status, or a fault where it does not."""
    child.signal(signal.SIGTERM)
    code = child.wait(timeouts.stop)
    if code is None:
        what = f"asked to end, it was there {timeouts.stop:g} s later"
        return fault("hangs", what, child.log)
    return code
