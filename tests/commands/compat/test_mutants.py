"""A next release in which one thing changed: each that breaks a plugin is seen, and no other."""

from __future__ import annotations

import pytest

from tests.commands.compat.plugins import CONFIG, CORE, ENVS, LAZY, UTILS

# What changes in which file, and the item that no longer holds: its kind, its name, its state.
BREAKING = {
    "class renamed": (
        [(CORE, b"class Runner(Worker):", b"class Executor(Worker):")],
        ("import", "vllm.core.Runner", "gone"),
    ),
    "base class renamed": (
        [(CORE, b"class Runner(Worker):", b"class Executor(Worker):")],
        ("subclass", "vllm.core.Runner", "gone"),
    ),
    "function moved": (
        [
            (UTILS, b"def close(handle):\n    handle.close()\n", b""),
            ("vllm/closing.py", None, b"def close(handle):\n    handle.close()\n"),
        ],
        ("import", "vllm.utils.close", "gone"),
    ),
    "module gone": ([(UTILS, None, None)], ("import", "vllm.utils.launch", "gone")),
    "lazy name gone": ([(LAZY, b'"Lazy"', b'"Other"')], ("import", "vllm.lazy.Lazy", "gone")),
    "environment variable gone": (
        [(ENVS, b"VLLM_SPEED", b"VLLM_PACE")],
        ("environment", "vllm.envs.VLLM_SPEED", "gone"),
    ),
    "required parameter of a function": (
        [(UTILS, b"def close(handle):", b"def close(handle, force):")],
        ("call", "vllm.utils.close", "changed"),
    ),
    "keyword taken away": (
        [(UTILS, b'def launch(config, mode="fast"):', b"def launch(config):\n    mode = 1")],
        ("call", "vllm.utils.launch", "changed"),
    ),
    "required field of a dataclass": (
        [(CONFIG, b"    depth: int\n", b"    depth: int\n    height: int\n")],
        ("call", "vllm.config.Config", "changed"),
    ),
    "keyword of a constructor taken away": (
        [(CORE, b"config: Config, rank: int = 0", b"config: Config")],
        ("call", "my_plugin.MyWorker (inherited).__init__", "changed"),
    ),
    "parameter of an overridden method": (
        [(CORE, b"def run(self, batch):", b"def run(self, batch, throttle):")],
        ("override", "my_plugin.MyWorker.run", "changed"),
    ),
    "keyword parameter of an overridden method": (
        [
            (CORE, b"*, fast=False", b"*, fast=False, slow=False"),
            ("vllm/engine.py", None, b"def go(worker):\n    worker.step(1, slow=True)\n"),
        ],
        ("override", "my_plugin.MyWorker.step", "changed"),
    ),
    "async made sync": (
        [(CORE, b"async def stop", b"def stop")],
        ("override", "my_plugin.MyWorker.stop", "changed"),
    ),
    "method made a property": (
        [
            (
                CORE,
                b"    def run(self, batch):",
                b"    @property\n    def run(self):\n        batch = 1",
            )
        ],
        ("override", "my_plugin.MyWorker.run", "changed"),
    ),
    "overridden method gone": (
        [(CORE, b"async def stop", b"async def finish")],
        ("override", "my_plugin.MyWorker.stop", "gone"),
    ),
    "abstract method added": (
        [(CORE, b"    def run(", b"    @abstractmethod\n    def check(self): ...\n\n    def run(")],
        ("abstract", "my_plugin.Bare", "changed"),
    ),
    "field gone": (
        [(CONFIG, b"    width: int = 4\n", b"    breadth: int = 4\n")],
        ("field", "my_plugin.MyWorker.config.width", "gone"),
    ),
    "inherited attribute gone": (
        [(CORE, b"self.seen = 0", b"self.viewed = 0")],
        ("field", "my_plugin.MyWorker.seen", "gone"),
    ),
    "patched function has another parameter": (
        [(UTILS, b'mode="fast"', b'mode="fast", place=None')],
        ("patch", "vllm.utils.launch", "changed"),
    ),
}
LOOK_AGAIN = {
    "body of an overridden method": (
        [(CORE, b"return batch + 1", b"return batch + 2")],
        ("override", "my_plugin.MyWorker.run"),
    ),
    "body of a patched function": (
        [(UTILS, b"return config, mode", b"return mode, config")],
        ("patch", "vllm.utils.launch"),
    ),
    "another base": (
        [
            (
                CORE,
                b"class Runner(Worker):",
                b"class Mixin:\n    pass\n\n\nclass Runner(Mixin, Worker):",
            )
        ],
        ("subclass", "vllm.core.Runner"),
    ),
    "default changed": (
        [(CORE, b"fast=False", b"fast=True")],
        ("override", "my_plugin.MyWorker.step"),
    ),
}
HARMLESS = {
    "body of a function that is called": [(UTILS, b"handle.close()", b"handle.close(), 1")],
    "default added": [(UTILS, b"def close(handle):", b"def close(handle=None):")],
    "optional parameter added": [
        (UTILS, b"def close(handle):", b"def close(handle, force=False):")
    ],
    "docstring and layout": [
        (
            CORE,
            b"        return batch + 1",
            b'        """Say more."""\n\n        return (batch\n                + 1)',
        )
    ],
    "definitions in another order": [
        (
            CONFIG,
            b"    width: int = 4\n    names: list = field(default_factory=list)",
            b"    names: list = field(default_factory=list)\n    width: int = 4",
        )
    ],
    "imported from where it moved": [
        (UTILS, b"def close(handle):\n    handle.close()\n", b"from vllm.closing import close\n"),
        ("vllm/closing.py", None, b"def close(handle):\n    handle.close()\n"),
    ],
    "starred from where it moved": [
        (UTILS, b"def close(handle):\n    handle.close()\n", b"from vllm.closing import *\n"),
        ("vllm/closing.py", None, b"def close(handle):\n    handle.close()\n"),
    ],
    "in each branch": [
        (
            UTILS,
            b"def close(handle):\n    handle.close()\n",
            b"try:\n    from os import close\nexcept ImportError:\n    close = None\n",
        ),
    ],
    "attribute set in another method": [
        (
            CORE,
            b"        self.seen = 0\n",
            b"        self.begin()\n\n    def begin(self):\n        self.seen = 0\n",
        )
    ],
    "field moved to a base": [
        (
            CONFIG,
            b"@dataclass\nclass Config:\n    depth: int\n",
            b"@dataclass\nclass Base:\n    depth: int\n\n\n@dataclass\nclass Config(Base):\n",
        )
    ],
}
UNSURE = {
    "names that are computed": [
        (UTILS, b"def close(handle):\n    handle.close()\n", b"globals().update(make())\n")
    ],
    "a module that answers for any name": [
        (
            UTILS,
            b"def close(handle):\n    handle.close()\n",
            b"import os\n\n\ndef __getattr__(name):\n    return getattr(os, name)\n",
        )
    ],
    "one branch only": [
        (
            UTILS,
            b"def close(handle):\n    handle.close()\n",
            b"if launch:\n    def close(handle):\n        handle.close()\n",
        )
    ],
    "all names of a library": [
        (UTILS, b"def close(handle):\n    handle.close()\n", b"from torch import *\n")
    ],
    "set by another module": [
        (UTILS, b"def close(handle):\n    handle.close()\n", b""),
        ("vllm/start.py", None, b"import vllm.utils as utils\n\nutils.close = print\n"),
    ],
}


def states(document, release):
    return {
        (one["kind"], one["name"]): one["verdicts"][release]["state"] for one in document["items"]
    }


def breaks(document, release):
    return {
        key: state
        for key, state in states(document, release).items()
        if state in {"gone", "changed"}
    }


@pytest.mark.parametrize("name", BREAKING)
def test_a_change_that_breaks_is_seen(judged, name):
    changes, (kind, item, state) = BREAKING[name]
    document = judged(changes)
    assert breaks(document, "0.50.0") == {}
    assert states(document, "0.51.0")[kind, item] == state


@pytest.mark.parametrize("name", LOOK_AGAIN)
def test_a_changed_body_is_to_be_looked_at(judged, name):
    changes, item = LOOK_AGAIN[name]
    document = judged(changes)
    assert breaks(document, "0.51.0") == {}
    assert states(document, "0.51.0")[item] == "look again"


@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_change_breaks_nothing(judged, name):
    document = judged(HARMLESS[name])
    assert breaks(document, "0.51.0") == {}
    assert states(document, "0.51.0")["import", "vllm.utils.close"] == "holds"


@pytest.mark.parametrize("name", UNSURE)
def test_what_the_code_does_not_tell_is_unknown(judged, name):
    document = judged(UNSURE[name])
    assert breaks(document, "0.51.0") == {}
    assert states(document, "0.51.0")["import", "vllm.utils.close"] == "unknown"


def test_a_moved_function_is_named(judged):
    document = judged(BREAKING["function moved"][0])
    item = next(one for one in document["items"] if one["name"] == "vllm.utils.close")
    assert item["verdicts"]["0.51.0"]["moved"] == "vllm.closing.close (vllm/closing.py:1)"
