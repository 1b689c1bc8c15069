"""The packages in an image, with what their own metadata says of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import NormalizedName, canonicalize_name
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vpatch.docker.container import ContainerConfig
from vpatch.errors import VpatchError
from vpatch.image import PAYLOAD
from vpatch.util.untrusted import parse_json

if TYPE_CHECKING:
    from vpatch.docker.engine import Docker

_FOLDER = "vpatch-packages"
_SCRIPT = "packages.py"
_SECONDS = 300.0
_SHOWN = 20


class ImagePackage(BaseModel):
    """A package as `payload/packages.py` lists it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: str
    architecture: str = ""
    supplier: str = ""
    licenses: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()


class Inventory(BaseModel):
    """The packages of an image. `system` is the distribution and its version, such as debian 12.

    `markers` are the values by which Python's requirements choose there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    system: tuple[str, str] = ("", "")
    markers: Mapping[str, str] = Field(default_factory=dict)
    python: tuple[ImagePackage, ...] = ()
    debian: tuple[ImagePackage, ...] = ()

    def required_by(self, package: ImagePackage) -> list[ImagePackage]:
        """Return the Python packages here that a package requires, without its extras."""
        by_name = {canonicalize_name(one.name): one for one in self.python}
        names = [name for text in package.requires if (name := self._required(text)) is not None]
        return [by_name[name] for name in dict.fromkeys(names) if name in by_name]

    def _required(self, text: str) -> NormalizedName | None:
        try:
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is not None and not marker.evaluate({**self.markers, "extra": ""}):
                return None
        except (InvalidRequirement, UndefinedComparison, UndefinedEnvironmentName):
            return None
        return canonicalize_name(requirement.name)


def inventory_of(docker: Docker, image: str, name: str) -> Inventory:
    """Ask the Python of an image which packages it has; `name` is what people call the image.

    Raises:
        VpatchError: its Python does not run, or gives another answer.
    """
    words = ["python3", "-B", f"/{_FOLDER}/{_SCRIPT}", f"/{_FOLDER}/result"]
    with docker.container(image, words, ContainerConfig(user="0")) as container:
        container.put({f"{_FOLDER}/{_SCRIPT}": (PAYLOAD / _SCRIPT).read_bytes()}, "/")
        container.start()
        code = container.wait(_SECONDS)
        answer = container.read(f"/{_FOLDER}/result") if code == 0 else None
        lines = container.logs().decode(errors="replace").splitlines()[-_SHOWN:]
    try:
        return Inventory.model_validate(parse_json(answer or b""))
    except (ValidationError, ValueError):
        pass  # said below: whatever it is, its Python did not write what the script writes
    raise VpatchError(
        "\n".join([f"its python3 did not list its packages (it ended with {code}):", *lines]),
        where=name,
        hint="check that python3 runs in the image",
        code="image.python-failed",
    )
