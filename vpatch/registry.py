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

    `module` lies below `vpatch.commands`, and has it as `command`. `help` is the first sentence of
    its docstring: `vpatch --help` shows it, and imports no command. `extra` installs what the
    command needs; others need an extra for some of their options only. `results` are the models of
    what `--json` prints, by subcommand; the command itself has the key "".
    """

    module: str
    help: str
    extra: str | None = None
    results: Mapping[str, str] = MappingProxyType({})

    def imported(self) -> Any:
        """Import the module, and return the click command."""
        return importlib.import_module(f"{_FOLDER}.{self.module}").command


# In the order in which a newcomer meets them.
COMMANDS = {
    "apply": Command(
        "apply.command",
        "Apply patches to a pinned vLLM, with one commit for each patch and a lock file.",
        results={"": "apply.output.ApplyOutput"},
    ),
    "status": Command(
        "status.command",
        "Show the state of each patch for one version of vLLM, or for several.",
        results={"": "status.output.StatusOutput"},
    ),
    "bump": Command(
        "bump.command",
        "Show what a new release of vLLM means for each patch of some recipes.",
        results={"": "bump.output.BumpOutput"},
    ),
    "audit": Command(
        "audit.command",
        "List which security advisories concern a vLLM, and why.",
        results={"": "audit.output.AuditOutput"},
    ),
    "import": Command(
        "importing.command",
        "Convert diffs, commits or a modified tree into patches, and check that they do the same.",
        results={"": "importing.output.ImportOutput"},
    ),
    "new": Command(
        "importing.new_command",
        "Write an empty patch with a commented patch.yaml, for you to fill in.",
        results={"": "importing.output.NewOutput"},
    ),
    "diagnose": Command(
        "diagnose.command",
        "Find known symptoms in a log or traceback, and name the patch that fixes each.",
        results={"": "diagnose.output.DiagnoseOutput"},
    ),
    "diff": Command(
        "apply.diff_command",
        "Print what the patches of a checkout change, in one diff or in one for each PATCH.",
    ),
    "check": Command(
        "apply.check_command",
        "Apply the patches of a checkout again, in memory, and compare every byte.",
        results={"": "apply.output.CheckOutput"},
    ),
    "list": Command(
        "library.list_command",
        "List all patches and recipes of the project and of the library.",
        results={"": "library.output.ListOutput"},
    ),
    "show": Command(
        "library.show_command",
        "Show a patch: what fails without it, what it changes, and its upstream threads.",
        results={"": "library.output.ShowOutput"},
    ),
    "test": Command(
        "proofs.command",
        "Run the examples of all patches, or of the named ones.",
        results={"": "proofs.output.TestOutput"},
    ),
    "build-image": Command(
        "build_image.command",
        "Apply patches like `vpatch apply`, and build a container image from the lock.",
        extra="image",
        results={"": "build_image.output.BuildImageOutput"},
    ),
    "verify-image": Command(
        "build_image.verify_image_command",
        "Compare an image with its lock, and list the differences.",
        extra="image",
        results={"": "build_image.output.VerifyImageOutput"},
    ),
    "wheel": Command(
        "install.wheel_command",
        "Make a wheel of vLLM with the patched files, from a published wheel.",
        extra="audit",
        results={"": "install.output.WheelOutput"},
    ),
    "install": Command(
        "install.command",
        "Install patched files over the vLLM of a Python environment.",
        results={"": "install.output.InstallOutput"},
    ),
    "uninstall": Command(
        "install.uninstall_command",
        "Restore the files that `vpatch install` replaced.",
        results={"": "install.output.UninstallOutput"},
    ),
    "verify-env": Command(
        "install.verify_env_command",
        "Report which vLLM an environment has, and which of its files were modified.",
        results={"": "install.output.VerifyEnvOutput"},
    ),
    "run": Command(
        "run.command",
        "Run a command with patched files over its vLLM, and change no installed file.",
        results={"": "run.output.RunOutput"},
    ),
    "smoke": Command(
        "smoke.command",
        "Run a patched vLLM by its recipe's smoke plan, and keep the results as evidence.",
        extra="engine",
        results={"": "smoke.output.SmokeOutput"},
    ),
    "evidence": Command(
        "evidence.command",
        "List evidence, show it, and verify that it matches the current patches.",
        results={
            "list": "evidence.output.EvidenceListOutput",
            "show": "evidence.output.EvidenceShowOutput",
            "verify": "evidence.output.EvidenceOutput",
        },
    ),
    "bench": Command(
        "bench.command",
        "Measure a patched vLLM under load, with vLLM's own `vllm bench serve`.",
        extra="bench",
        results={"": "bench.output.BenchOutput", "compare": "bench.output.BenchCompareOutput"},
    ),
    "checkpoint": Command(
        "checkpoint.command",
        "Inspect a checkpoint without loading it, and repair its MTP layers.",
        results={
            "graft-mtp": "checkpoint.output.GraftOutput",
            "quantise-mtp": "checkpoint.output.QuantiseOutput",
            "ignore-names": "checkpoint.output.IgnoreNamesOutput",
            "inspect": "checkpoint.output.InspectOutput",
        },
    ),
    "upstream-pr": Command(
        "upstream.command",
        "Show a patch as a pull request to upstream, with every gate that it must pass.",
        extra="upstream",
        results={"": "upstream.output.UpstreamPrOutput"},
    ),
    "upstream-status": Command(
        "upstream.status_command",
        "Show the state of each patch's upstream threads, and propose what to do.",
        results={"": "upstream.output.UpstreamStatusOutput"},
    ),
    "engine": Command(
        "cache.engine_command",
        "Make an environment with a real vLLM in the cache, and print where its Python is.",
        extra="engine",
        results={"": "cache.output.EngineOutput"},
    ),
    "schema": Command(
        "schema.command",
        "Print the JSON Schema of patch.yaml, a recipe, a target, or of what --json prints.",
    ),
    "trust": Command(
        "trust.command",
        "Allow a project's code to run: its patches, recipes and targets as they are now.",
        results={"": "trust.output.TrustOutput"},
    ),
    "cache": Command(
        "cache.command",
        "List or clear the cache of fetched trees, engines and overlays.",
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
