"""All commands in one table: where each one is, what it needs, and what `--json` prints."""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from vpatch.console.document import OutputModel

_FOLDER = "vpatch.commands"


class Command(NamedTuple):
    """A command of vpatch.

    `group` is what one does with it. `module` lies below `vpatch.commands`, and has it as
    `command`. `help` is the first sentence of its docstring: `vpatch --help` shows it, and imports
    no command. `extra` installs what the command needs; others need an extra for some of their
    options only. `results` are the models of what `--json` prints, by subcommand; the command
    itself has the key "".
    """

    group: str
    module: str
    help: str
    extra: str | None = None
    results: Mapping[str, str] = MappingProxyType({})

    def imported(self) -> Any:
        """Import the module, and return the click command."""
        return importlib.import_module(f"{_FOLDER}.{self.module}").command


# In the order of the help: by what one does with patches, and then as a newcomer meets them.
COMMANDS = {
    "new": Command(
        "write",
        "importing.new_command",
        "Write an empty patch, for you to fill in.",
        results={"": "importing.output.NewOutput"},
    ),
    "source": Command(
        "write",
        "source.command",
        "Write the plain source of a vLLM, to edit.",
        results={"": "source.output.SourceOutput"},
    ),
    "import": Command(
        "write",
        "importing.command",
        "Convert diffs, commits or a tree to patches.",
        results={"": "importing.output.ImportOutput"},
    ),
    "edit": Command(
        "write",
        "edit.command",
        "Open a patch as code, to change it.",
        results={"": "edit.output.EditOutput"},
    ),
    "refresh": Command(
        "write",
        "edit.refresh_command",
        "Make a patch say what its work tree says.",
        results={"": "edit.refresh_output.RefreshOutput"},
    ),
    "list": Command(
        "write",
        "library.list_command",
        "List the patches and recipes.",
        results={"": "library.output.ListOutput"},
    ),
    "show": Command(
        "write",
        "library.show_command",
        "Show what a patch is for.",
        results={"": "library.output.ShowOutput"},
    ),
    "schema": Command(
        "write",
        "schema.command",
        "Print a JSON Schema.",
    ),
    "trust": Command(
        "write",
        "trust.command",
        "Allow a project's code to run.",
        results={"": "trust.output.TrustOutput"},
    ),
    "status": Command(
        "decide",
        "status.command",
        "Show the state of each patch in releases of vLLM.",
        results={"": "status.output.StatusOutput"},
    ),
    "diagnose": Command(
        "decide",
        "diagnose.command",
        "Find known symptoms in a log.",
        results={"": "diagnose.output.DiagnoseOutput"},
    ),
    "checkpoint": Command(
        "decide",
        "checkpoint.command",
        "Inspect a checkpoint, and repair its MTP layers.",
        results={
            "graft-mtp": "checkpoint.output.GraftOutput",
            "quantise-mtp": "checkpoint.output.QuantiseOutput",
            "ignore-names": "checkpoint.output.IgnoreNamesOutput",
            "inspect": "checkpoint.output.InspectOutput",
        },
    ),
    "apply": Command(
        "deliver",
        "apply.command",
        "Make a checkout with a commit for each patch.",
        results={"": "apply.output.ApplyOutput"},
    ),
    "diff": Command(
        "deliver",
        "apply.diff_command",
        "Print what the patches of a checkout change.",
    ),
    "check": Command(
        "deliver",
        "apply.check_command",
        "Compare every byte of a checkout with its patches.",
        results={"": "apply.output.CheckOutput"},
    ),
    "run": Command(
        "deliver",
        "run.command",
        "Run a command with patches, and install nothing.",
        results={"": "run.output.RunOutput"},
    ),
    "install": Command(
        "deliver",
        "install.command",
        "Patch the vLLM of a Python environment.",
        results={"": "install.output.InstallOutput"},
    ),
    "uninstall": Command(
        "deliver",
        "install.uninstall_command",
        "Restore the files that `vpatch install` replaced.",
        results={"": "install.output.UninstallOutput"},
    ),
    "verify-env": Command(
        "deliver",
        "install.verify_env_command",
        "Report which files of an installed vLLM changed.",
        results={"": "install.output.VerifyEnvOutput"},
    ),
    "wheel": Command(
        "deliver",
        "install.wheel_command",
        "Make a wheel of a patched vLLM.",
        extra="audit",
        results={"": "install.output.WheelOutput"},
    ),
    "build-image": Command(
        "deliver",
        "build_image.command",
        "Build a container image of a patched vLLM.",
        extra="image",
        results={"": "build_image.output.BuildImageOutput"},
    ),
    "verify-image": Command(
        "deliver",
        "build_image.verify_image_command",
        "Compare an image with its lock, or with a release.",
        extra="image",
        results={"": "build_image.output.VerifyImageOutput"},
    ),
    "test": Command(
        "prove",
        "proofs.command",
        "Test patches by examples and behaviour tests.",
        results={"": "proofs.output.TestOutput"},
    ),
    "smoke": Command(
        "prove",
        "smoke.command",
        "Run a patched vLLM by a smoke plan, for evidence.",
        extra="engine",
        results={"": "smoke.output.SmokeOutput"},
    ),
    "evidence": Command(
        "prove",
        "evidence.command",
        "List, show and verify evidence.",
        results={
            "list": "evidence.output.EvidenceListOutput",
            "show": "evidence.output.EvidenceShowOutput",
            "verify": "evidence.output.EvidenceOutput",
        },
    ),
    "bench": Command(
        "prove",
        "bench.command",
        "Measure a patched vLLM under load.",
        extra="bench",
        results={"": "bench.output.BenchOutput", "compare": "bench.output.BenchCompareOutput"},
    ),
    "tiny-model": Command(
        "prove",
        "tiny_model.command",
        "Write a tiny model, for a server or a script.",
        results={"": "tiny_model.output.TinyModelOutput"},
    ),
    "bump": Command(
        "watch",
        "bump.command",
        "Show what a new vLLM means for each patch.",
        results={"": "bump.output.BumpOutput"},
    ),
    "compat": Command(
        "watch",
        "compat.command",
        "Show whether code outside vLLM fits each release.",
        results={"": "compat.output.CompatOutput"},
    ),
    "audit": Command(
        "watch",
        "audit.command",
        "List which security advisories concern a vLLM.",
        results={"": "audit.output.AuditOutput"},
    ),
    "upstream-status": Command(
        "watch",
        "upstream.status_command",
        "Show the state of each patch's upstream threads.",
        results={"": "upstream.output.UpstreamStatusOutput"},
    ),
    "upstream-pr": Command(
        "propose",
        "upstream.command",
        "Show or open a pull request to upstream.",
        extra="upstream",
        results={"": "upstream.output.UpstreamPrOutput"},
    ),
    "engine": Command(
        "other",
        "cache.engine_command",
        "Make an environment with a real vLLM.",
        extra="engine",
        results={"": "cache.output.EngineOutput"},
    ),
    "completion": Command(
        "other",
        "completion.command",
        "Print a script for completion in a shell.",
    ),
    "cache": Command(
        "other",
        "cache.command",
        "List or clear what vpatch keeps.",
        results={"clear": "cache.output.CacheClearOutput", "list": "cache.output.CacheListOutput"},
    ),
}
RESULTS = dict(
    sorted(
        (f"{name} {part}".strip(), model)
        for name, command in COMMANDS.items()
        for part, model in command.results.items()
    )
)
"""The model of what each command or subcommand prints with `--json`."""


def model_of(command: str) -> type[OutputModel]:
    """Return the model of what a command of `RESULTS` prints; this imports it."""
    module, _, name = RESULTS[command].rpartition(".")
    model: type[OutputModel] = getattr(importlib.import_module(f"{_FOLDER}.{module}"), name)
    return model


def schema_of(command: str) -> dict[str, JsonValue]:
    """Return the JSON Schema of the document that a command prints, the envelope included."""
    from vpatch.console.document import Envelope  # noqa: PLC0415 - models load slowly

    result = model_of(command)
    envelope: type[Envelope[Any]] = Envelope[result]  # type: ignore[valid-type]
    schema = envelope.model_json_schema(mode="serialization")
    schema["title"] = f"vpatch {command} --json"
    schema["properties"]["command"]["const"] = command
    return schema
