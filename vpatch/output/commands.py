"""Which model the result of each command has, and the JSON Schema of its document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vpatch.output.apply import ApplyOutput, CheckOutput
from vpatch.output.base import Envelope
from vpatch.output.bench import BenchCompareOutput, BenchOutput
from vpatch.output.bump import BumpOutput
from vpatch.output.cache import CacheClearOutput, CacheListOutput, EngineOutput
from vpatch.output.checkpoints import (
    GraftOutput,
    IgnoreNamesOutput,
    InspectOutput,
    QuantiseOutput,
)
from vpatch.output.diagnosis import DiagnoseOutput
from vpatch.output.evidence import (
    EvidenceListOutput,
    EvidenceOutput,
    EvidenceShowOutput,
)
from vpatch.output.images import BuildImageOutput, VerifyImageOutput
from vpatch.output.importing import ImportOutput, NewOutput
from vpatch.output.library import ListOutput, ShowOutput
from vpatch.output.packages import (
    InstallOutput,
    UninstallOutput,
    VerifyEnvOutput,
    WheelOutput,
)
from vpatch.output.proofs import TestOutput
from vpatch.output.run import RunOutput
from vpatch.output.security import AuditOutput
from vpatch.output.smoke import SmokeOutput
from vpatch.output.status import StatusOutput
from vpatch.output.trust import TrustOutput
from vpatch.output.upstream import UpstreamPrOutput, UpstreamStatusOutput

if TYPE_CHECKING:
    from vpatch.output.base import OutputModel

RESULTS: dict[str, type[OutputModel]] = {
    "apply": ApplyOutput,
    "audit": AuditOutput,
    "bench": BenchOutput,
    "bench compare": BenchCompareOutput,
    "build-image": BuildImageOutput,
    "bump": BumpOutput,
    "cache clear": CacheClearOutput,
    "cache list": CacheListOutput,
    "check": CheckOutput,
    "checkpoint graft-mtp": GraftOutput,
    "checkpoint quantise-mtp": QuantiseOutput,
    "checkpoint ignore-names": IgnoreNamesOutput,
    "checkpoint inspect": InspectOutput,
    "diagnose": DiagnoseOutput,
    "engine": EngineOutput,
    "evidence list": EvidenceListOutput,
    "evidence show": EvidenceShowOutput,
    "evidence verify": EvidenceOutput,
    "import": ImportOutput,
    "install": InstallOutput,
    "list": ListOutput,
    "new": NewOutput,
    "run": RunOutput,
    "show": ShowOutput,
    "smoke": SmokeOutput,
    "status": StatusOutput,
    "test": TestOutput,
    "trust": TrustOutput,
    "uninstall": UninstallOutput,
    "upstream-pr": UpstreamPrOutput,
    "upstream-status": UpstreamStatusOutput,
    "verify-env": VerifyEnvOutput,
    "verify-image": VerifyImageOutput,
    "wheel": WheelOutput,
}


def schema_of(command: str) -> dict[str, Any]:
    """Return the JSON Schema of the document that a command prints, the envelope included."""
    result = RESULTS[command]
    envelope: type[Envelope[Any]] = Envelope[result]  # type: ignore[valid-type]
    schema = envelope.model_json_schema(mode="serialization")
    schema["title"] = f"vpatch {command} --json"
    schema["properties"]["command"]["const"] = command
    return schema
