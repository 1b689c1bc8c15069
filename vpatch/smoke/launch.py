"""Starting vLLM's OpenAI-compatible server, waiting until it is healthy, and ending it."""

from __future__ import annotations

import json
import random
import signal
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import requests

from vpatch.smoke.client import MODEL
from vpatch.smoke.faults import fault

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vpatch.declare.smoke import Timeouts
    from vpatch.engine.process import Running
    from vpatch.smoke.client import Client
    from vpatch.smoke.measured import Fault
    from vpatch.smoke.site import Site

_MODULE = "vllm.entrypoints.openai.api_server"
_HOST = "127.0.0.1"
_POLL_SECONDS = 0.3
# Below those that Linux (32768 and up), macOS and RFC 6335 (49152 and up) give to whoever asks for
# any, and Kubernetes to its services (30000 and up): a server binds seconds after it was told.
_PORTS = range(20000, 30000)


class Launch(Protocol):
    """What a server is started with. `flags` are spelt as `vllm serve` spells them."""

    @property
    def tensor_parallel(self) -> int: ...

    @property
    def speculative(self) -> Mapping[str, Any] | None: ...

    @property
    def flags(self) -> Mapping[str, Any]: ...

    @property
    def timeouts(self) -> Timeouts: ...


def free_port(port: int | None) -> int | None:
    """Return the port if it is free, or a free one for None; None where there is none."""
    ports = random.sample(_PORTS, len(_PORTS)) if port is None else [port]
    return next(filter(_is_free, ports), None)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
        return True


def url_of(port: int) -> str:
    return f"http://{_HOST}:{port}"


def command_of(launch: Launch, model: Path | str, site: Site, port: int) -> list[str | Path]:
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
    return [site.python, "-m", _MODULE, *words]


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
    return fault("does not start", f"not healthy after {limit:g} s", child.log)


def stop(child: Running, timeouts: Timeouts) -> int | Fault:
    """Ask a server to end; return its exit status, or a fault where it does not."""
    child.signal(signal.SIGTERM)
    code = child.wait(timeouts.stop)
    if code is None:
        what = f"asked to end, it was there {timeouts.stop:g} s later"
        return fault("hangs", what, child.log)
    return code
