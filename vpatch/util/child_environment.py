"""What code of others is given of the user's environment: what it needs to run, no credentials.

A list of what is allowed, since nobody knows all names that hold secrets. It is not a sandbox: code
that runs can read what its user can read.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from vpatch.util.own_environment import inherited
from vpatch.util.urls import has_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROXIES = {"ALL_PROXY", "FTP_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}
_NAMES = {
    *_PROXIES,
    *(name.lower() for name in _PROXIES),
    "COLUMNS",
    "CURL_CA_BUNDLE",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "REQUESTS_CA_BUNDLE",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
}
_PREFIXES = ("LC_", "PIP_")
# What engines and their libraries are told, on the platforms that vLLM runs on.
_OF_ENGINES = (
    "ASCEND_",
    "CUDA_",
    "CUDNN_",
    "GLOO_",
    "HABANA_",
    "HF_HOME",
    "HF_HUB_",
    "HIP_",
    "HSA_",
    "MACA_",
    "MKL_",
    "MUSA_",
    "NCCL_",
    "NVIDIA_",
    "OMP_",
    "ONEAPI_",
    "PYTORCH_",
    "RAY_",
    "ROCM_",
    "ROCR_",
    "TORCH",
    "TPU_",
    "TRANSFORMERS_",
    "TRITON_",
    "VLLM_",
    "XPU_",
    "ZE_",
)
# Where a Docker Engine is. None of these holds a secret.
_OF_DOCKER = ("DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY")
# Variables with such a name hold secrets.
SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)

# They have such a name, and hold where an agent, a display or a store is.
_NO_SECRETS = {"GCM_CREDENTIAL_STORE", "GNOME_KEYRING_CONTROL", "SSH_AUTH_SOCK", "XAUTHORITY"}
_TOKEN = re.compile(r"\b(?:gh[a-z]_|github_pat_|hf_)[A-Za-z0-9_]{30,}")


def without_secrets(of: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for the user's own git: what holds a token, a key or a password goes.

    git's own variables stay, and so do proxies, which may have a password.
    """
    return {
        name: value
        for name, value in inherited(of).items()
        if name in _NO_SECRETS
        or name.startswith("GIT_")
        or name.upper() in _PROXIES
        or not (SECRET_NAME.search(name) or _TOKEN.search(value) or _holds_secret(value))
    }


def environment(*, engine: bool = False, of: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what foreign code gets of the environment; with `engine`, what a vLLM is told too."""
    prefixes = (*_PREFIXES, *_OF_ENGINES) if engine else _PREFIXES
    return {
        name: value
        for name, value in inherited(os.environ if of is None else of).items()
        if (name in _NAMES or name.startswith(prefixes))
        and not SECRET_NAME.search(name)
        and not _holds_secret(value)
    }


def environment_of_a_node() -> dict[str, str]:
    """Return what vpatch's own jobs on a node of a cluster get: an engine's, and vpatch's."""
    ours = ("VPATCH_", *_OF_DOCKER)
    variables = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(ours) and not SECRET_NAME.search(name)
    }
    return environment(engine=True) | variables


def _holds_secret(value: str) -> bool:
    """Whether one of the URLs in a value has a password or a token in it."""
    return any("://" in part and _is_secret(part) for part in value.split())


def _is_secret(url: str) -> bool:
    try:
        return has_secret(url)
    except ValueError:  # nobody can tell
        return True
