"""Opening a cluster by its address."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
from contextlib import ExitStack, chdir, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from vpatch.cluster.errors import ClusterError
from vpatch.cluster.running import RayCluster
from vpatch.errors import UsageError
from vpatch.util import child_environment
from vpatch.util.extras import require
from vpatch.util.scratch import scratch_folder
from vpatch.util.urls import redact

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLIENT = "ray://"
_CLIENT_PORT = 10001
_HOST = re.compile(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_SECONDS = 10.0
# How often a client asks for a server of its own.
_ATTEMPTS = 3
_log = logging.getLogger(__name__)


@contextmanager
def connected(typed: str) -> Iterator[RayCluster]:
    """Open the cluster at `ray://HOST[:PORT]`, `HOST:PORT` or `auto`; `local` starts one here.

    Raises:
        UsageError: the address is wrong.
        ClusterError: no cluster answers there, or it has another Ray.
    """
    address = address_of(typed)
    require("ray", "`--cluster`")
    import ray  # noqa: PLC0415 - of the extra `ray`

    with ExitStack() as stack:
        if not ray.is_initialized():
            if address == "auto":
                _refuse_foreign()
            _refuse_silent(address)
            settings = _local(stack) if address == "local" else {}
            _open(address, settings)
            stack.callback(ray.shutdown)
        yield stack.enter_context(closing(RayCluster(address)))


def address_of(typed: str) -> str:
    """Return an address as Ray takes it.

    Raises:
        UsageError: it is wrong.
    """
    if typed in {"auto", "local"}:
        return typed
    scheme = _CLIENT if typed.startswith(_CLIENT) else ""
    match = _HOST.fullmatch(typed.removeprefix(scheme))
    if match is None or not (scheme or match[2]):
        # A password before an @, or in a query, stays out.
        shown = redact(typed).rpartition("@")[2]
        raise UsageError(
            f"{shown} is not an address of a cluster",
            where="--cluster",
            hint="give ray://HOST, HOST:PORT, auto, or local",
            code="cluster.bad-address",
        )
    return f"{scheme}{match[1]}:{match[2] or _CLIENT_PORT}"


def _refuse_silent(address: str) -> None:
    """Refuse an address where nothing listens: Ray takes a minute to notice."""
    if address in {"auto", "local"}:
        return
    host, _, port = address.removeprefix(_CLIENT).rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS).close()
    # A name with a part of 64 letters or of none is a UnicodeError.
    except (OSError, OverflowError, UnicodeError) as error:
        raise _no_cluster(address, error) from error


def _trusted_users() -> set[int]:
    return {0, os.getuid()}


def _refuse_foreign() -> None:
    """Refuse `auto` where another user of this machine says which cluster that is.

    Ray takes the address from a file in /tmp, or from the command line of any process.
    """
    if os.environ.get("RAY_ADDRESS"):
        return
    trusted = _trusted_users()
    files = [Path(os.environ.get("RAY_TMPDIR") or "/tmp", "ray", "ray_current_cluster")]  # noqa: S108
    for place in [*files, *Path("/proc").glob("[0-9]*/cmdline")]:
        with suppress(OSError):
            if place.stat().st_uid in trusted:
                continue
            if place in files or b"--gcs-address" in place.read_bytes():
                raise ClusterError(
                    "another user of this machine started a cluster, and it could run code as you",
                    where=str(place),
                    hint="give its address if you trust it: --cluster HOST:PORT",
                    code="cluster.of-another-user",
                )


def _no_cluster(address: str, error: Exception) -> ClusterError:
    hint = "start one (ray start --head), or give --cluster ray://HOST, HOST:PORT or local"
    return ClusterError(
        f"no Ray cluster answers: {_first(error)}",
        where=address,
        hint=hint,
        code="cluster.not-found",
    )


def _local(stack: ExitStack) -> dict[str, Any]:
    """Return the settings of a cluster that only this process uses, and that leaves no files."""
    folder = str(stack.enter_context(scratch_folder()))
    # Its processes get no tokens.
    environment = child_environment.environment_of_a_node()
    stack.enter_context(mock.patch.dict(os.environ, environment, clear=True))
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    return {"_temp_dir": folder, "include_dashboard": False}


def _open(address: str, settings: dict[str, Any]) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    try:
        # Ray's workers import from the folder that a driver starts in, before all others. It may be
        # a project of somebody else.
        with chdir("/"):
            _init(address, log_to_driver=False, logging_level=logging.ERROR, **settings)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        if "ersion" in str(error) and "mismatch" in str(error).lower():
            raise ClusterError(
                f"the cluster has another Ray or Python: {_mismatch(str(error))}",
                where=address,
                hint="install the cluster's Ray beside vpatch: pip install 'ray==VERSION'",
                code="cluster.version-differs",
            ) from error
        raise _no_cluster(address, error) from error
    except Exception as error:
        # Ray raises a plain Exception if a node that it started did not answer in time.
        if type(error) is not Exception:
            raise
        raise _no_cluster(address, error) from error
    finally:
        # Ray installs its own handler, which exits without a message.
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)


def _init(address: str, **settings: Any) -> None:
    """Call `ray.init`, and try it again where the server that Ray starts for a client died."""
    import ray  # noqa: PLC0415 - as above

    for attempt in range(1, _ATTEMPTS + 1):
        try:
            ray.init(address, **settings)
        except ConnectionAbortedError as error:
            if attempt == _ATTEMPTS or "Initialization failure" not in str(error):
                raise
            _log.info("%s: Ray did not start a server for this client: %s", address, _first(error))
        else:
            return


def _first(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    # If the first line ends in a colon, the reason is in the last line.
    return f"{lines[0]} {lines[-1]}" if lines[0].endswith(":") else lines[0]


def _mismatch(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    return " ".join(line for line in lines if line)[:500]
