"""The Python of an image, asked what it imports: it runs `payload/verify.py` in a container."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vpatch.errors import VpatchError
from vpatch.image import PAYLOAD
from vpatch.util.untrusted import parse_json

if TYPE_CHECKING:
    from vpatch.docker.container import Container
    from vpatch.image.payload.verify import ImageAnswer, Manifest

_FOLDER = "vpatch-verify"
_SECONDS = 900.0
_SHOWN = 20
# Of what an image says of itself: it may say anything.
_LONGEST = 500
_MOST = 1000
_DIGITS = 9
# What a container for `start` runs.
COMMAND = (
    "python3",
    f"/{_FOLDER}/verify.py",
    f"/{_FOLDER}/manifest.json",
    f"/{_FOLDER}/result",
)


def start(container: Container, manifest: Manifest) -> None:
    """Start the script in the container."""
    script = (PAYLOAD / "verify.py").read_bytes()
    files = {"verify.py": script, "manifest.json": json.dumps(manifest).encode()}
    container.put({f"{_FOLDER}/{file}": text for file, text in files.items()}, "/")
    container.start()


def answer_of(container: Container, name: str) -> ImageAnswer:
    """Wait for the script, and return its answer."""
    code = container.wait(_SECONDS)
    answer = container.read(f"/{_FOLDER}/result") if code == 0 else None
    if answer is None:
        log = container.logs()
        how = f"did not end in {_SECONDS:g} s" if code is None else f"ended with {code}"
        lines = "\n".join(log.decode(errors="replace").splitlines()[-_SHOWN:])
        raise VpatchError(
            f"its Python {how}:\n{lines}",
            where=name,
            hint="check that python3 runs in the image",
            code="image.python-failed",
        )
    try:
        return _shape(parse_json(answer))
    except (ValueError, AttributeError, LookupError, TypeError):
        pass  # said below: whatever it is, its Python did not write what the script writes
    raise VpatchError(
        "its Python gave an unexpected answer",
        where=name,
        hint="check that the image's python3 is not replaced",
        code="image.python-failed",
    )


def _shape(answer: Any) -> ImageAnswer:
    """Return of an answer what the script writes, as it writes it."""
    package = answer["package"]
    return {
        "package": None if package is None else short(package),
        "problems": [
            {"path": short(one["path"]), "what": short(one["what"])}
            for one in answer["problems"][:_MOST]
        ],
        "imports": {short(module): short(why) for module, why in answer["imports"].items()},
        "probes": {
            str(patch): {
                "held": int(str(effect["held"])[:_DIGITS]),
                "problems": [short(text) for text in effect["problems"][:_MOST]],
                "unknown": [short(text) for text in effect["unknown"][:_MOST]],
            }
            for patch, effect in answer["probes"].items()
        },
    }


def short(text: Any) -> str:
    return str(text)[:_LONGEST]
