"""A server of a few lines, as one that is to be put under load."""

from __future__ import annotations

import math
import sys
from contextlib import contextmanager

from tests.commands.smoke.fake_vllm import write_fake
from tests.waiting import until
from vpatch.commands.bench.load import LoadTarget
from vpatch.harness.client import MODEL, Client
from vpatch.harness.launch import free_port, url_of
from vpatch.harness.sandbox import OverlaySandbox


@contextmanager
def serving(folder, k, fault="", model="model", authority=None):
    """Serve, and yield a target, and the site that a client runs on.

    With an `authority` of trustme's, by https, with a certificate that this signed: it has to be in
    SSL_CERT_FILE by then.
    """
    engine = folder / "engine"
    if not engine.exists():
        write_fake(engine)
    sandbox = OverlaySandbox(sys.executable, (engine,))
    port = free_port(None)
    workdir = folder / f"server-{port}"
    workdir.mkdir()
    words = ["--model", model, "--served-model-name", MODEL, "--host", "127.0.0.1"]
    words += ["--port", str(port), "--tensor-parallel-size", "1"]
    if k:
        words += ["--speculative-config", f'{{"method": "mtp", "num_speculative_tokens": {k}}}']
    url = url_of(port)
    if authority is not None:
        issued, files = (
            authority.issue_cert("127.0.0.1"),
            [workdir / "certificate", workdir / "key"],
        )
        issued.cert_chain_pems[0].write_to_path(files[0])
        issued.private_key_pem.write_to_path(files[1])
        words += ["--ssl-certfile", str(files[0]), "--ssl-keyfile", str(files[1])]
        url = url.replace("http:", "https:")
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *words]
    extra_env = {"FAKE_FAULT": fault}
    with sandbox.started(
        command, workdir=workdir, log=workdir / "log", extra_env=extra_env
    ) as child:
        client = Client(url, 10.0, math.inf)
        until(client.is_healthy, process=child)
        yield LoadTarget(client, MODEL, model), sandbox
