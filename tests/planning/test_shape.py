"""Known shapes: which definitions a decision is read from, and what is new about them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.helpers import decide, patch_of, patched, tree_of
from tests.records import recorded
from vpatch.planning.code_shape import ChangedDefinition
from vpatch.planning.footprint import combined
from vpatch.planning.plan import plan
from vpatch.planning.shape import watched
from vpatch.planning.state import State

MODULE = "vllm/m.py"
OTHER = "vllm/other.py"
REWRITE = {"find": "launch($x)", "rewrite": "launch($x, mode=MODE, limit=self.limit)"}
SOURCE = """from vllm.other import launch

MODE = 1
UNUSED = 2


class Engine:
    def __init__(self):
        self.limit = 3

    def start(self, x):
        return launch(x)

    def stop(self):
        return None
"""
CALLED = """def launch(x, mode=0, limit=0):
    return x


def idle():
    return 0
"""
FILES = {MODULE: SOURCE, OTHER: CALLED}


@pytest.fixture
def patch(tmp_path):
    return patch_of(tmp_path, edits=[REWRITE], concerns={"text": "class Engine"})


def changed(old, new, path=MODULE):
    assert old in FILES[path]
    return FILES | {path: FILES[path].replace(old, new)}


def test_a_patch_reads_what_it_edits_and_what_its_new_code_names(patch):
    read = decide(patch, tree_of(FILES)).shape.definitions
    assert sorted(read) == [
        "vllm/m.py::Engine",
        "vllm/m.py::Engine.__init__",
        "vllm/m.py::Engine.start",
        "vllm/m.py::MODE",
        "vllm/m.py::launch",
        "vllm/other.py::launch",
    ]


def test_what_is_on_record_is_known(patch):
    decision = decide(recorded(patch, FILES), tree_of(FILES))
    assert decision.shape.known == ("0.0.0",)
    assert not decision.new_shape


def test_a_plan_without_shapes_is_the_same_but_for_them(patch):
    plans = [plan([patch], tree_of(FILES), shapes=shapes).decisions[0] for shapes in (True, False)]
    assert plans[0].shape is not None
    assert plans[1] == replace(plans[0], shape=None)


def test_nothing_on_record_is_a_new_shape(patch):
    decision = decide(patch, tree_of(FILES))
    assert decision.new_shape
    assert decision.shape.nearest is None


@pytest.mark.parametrize(
    ("path", "old", "new", "name"),
    [
        (MODULE, "def start(self, x)", "def start(self, x, y=0)", "vllm/m.py::Engine.start"),
        (MODULE, "MODE = 1", "MODE = 2", "vllm/m.py::MODE"),
        (MODULE, "self.limit = 3", "self.limit = 4", "vllm/m.py::Engine.__init__"),
        (MODULE, "class Engine:", "class Engine(Base):", "vllm/m.py::Engine"),
        (OTHER, "limit=0", "limit=1", "vllm/other.py::launch"),
    ],
)
def test_a_definition_that_differs_makes_a_new_shape(patch, path, old, new, name):
    decision = decide(recorded(patch, FILES), tree_of(changed(old, new, path)))
    assert decision.state is State.NEEDED
    assert decision.new_shape
    assert decision.shape.nearest == "0.0.0"
    assert decision.shape.differing == (ChangedDefinition(name, "changed"),)


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (MODULE, "UNUSED = 2", "UNUSED = 3"),
        (MODULE, "return None", "return 1"),
        (MODULE, "return launch(x)", "return launch(x)  # a comment"),
        (OTHER, "return 0", "return 1"),
    ],
)
def test_what_a_patch_does_not_read_does_not_matter(patch, path, old, new):
    decision = decide(recorded(patch, FILES), tree_of(changed(old, new, path)))
    assert not decision.new_shape


def test_a_patch_reads_what_uses_the_changed_code(patch):
    """A copy that is used in its place has the defect, and the patch does not reach it."""
    used = FILES | {MODULE: f"{SOURCE}\n\ndef main():\n    return Engine()\n"}
    known = recorded(patch, used)
    assert "vllm/m.py::main" in decide(known, tree_of(used)).shape.definitions
    other = used | {MODULE: used[MODULE].replace("return Engine()", "return Motor()")}
    decision = decide(known, tree_of(other))
    assert decision.state is State.NEEDED
    assert decision.shape.differing == (ChangedDefinition("vllm/m.py::main", "changed"),)


IMPL = """def launch_impl(x):
    return x


launch = wrap(launch_impl)
"""
REGISTRY = """from vllm import impl


def register():
    return {"launch": impl.launch_impl, "again": 1}


def unrelated():
    return 1
"""
LAUNCH = {"find": "def launch_impl(...): ...", "add-keyword": {"y": "0"}}


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("vllm/registry.py", "impl.launch_impl", "impl.other"),
        ("vllm/runner.py", "impl.launch", "impl.other"),
        ("vllm/impl.py", "wrap(launch_impl)", "wrap(other)"),
    ],
)
def test_a_patch_reads_what_uses_its_function_in_other_modules(tmp_path, path, old, new):
    patch = patch_of(tmp_path, edits=[LAUNCH], concerns={"text": "def launch_impl"})
    files = {
        "vllm/impl.py": IMPL,
        "vllm/registry.py": REGISTRY,
        "vllm/runner.py": "import vllm.impl as impl\n\n\ndef run(x):\n    return impl.launch(x)\n",
        "vllm/namesake.py": "def launch():\n    return launch_impl(1)\n",
    }
    known = recorded(patch, files)
    assert sorted(decide(known, tree_of(files)).shape.definitions) == [
        "vllm/impl.py::launch",
        "vllm/impl.py::launch_impl",
        "vllm/registry.py::register",
        "vllm/runner.py::run",
    ]
    decision = decide(known, tree_of(files | {path: files[path].replace(old, new)}))
    assert decision.state is State.NEEDED
    assert decision.new_shape


CALLER = "\n\ndef call(x):\n    return {}(x)\n"


@pytest.mark.parametrize(
    ("imports", "called", "uses"),
    [
        ("from vllm.impl import launch", "launch", True),
        ("from .impl import launch as start", "start", True),
        ("from vllm.again import launch", "launch", True),
        ("from vllm.extra.launcher import launch", "launch", False),
        ("from .extra import launch", "launch", False),
        ("from .extra import launch as start\nfrom .impl import launch", "launch", True),
        ("from .extra import launch as start\nfrom .impl import launch", "start", False),
        ("from .extra import launch\nfrom . import impl", "impl.launch", True),
    ],
)
def test_a_user_is_found_by_what_it_imports(tmp_path, imports, called, uses):
    patch = patch_of(tmp_path, edits=[LAUNCH], concerns={"text": "def launch_impl"})
    namesake = "def launch(x):\n    return x\n"
    files = {
        "vllm/impl.py": IMPL,
        "vllm/again.py": "from vllm.impl import launch\n",
        "vllm/extra/launcher.py": namesake,
        "vllm/extra/__init__.py": namesake,
        "vllm/caller.py": f"# As impl.\n{imports}\n{CALLER.format(called)}",
    }
    read = decide(recorded(patch, files), tree_of(files)).shape.definitions
    assert ("vllm/caller.py::call" in read) is uses


KERNELS = """def launch(x):
    pass


launcher = Launcher(launch)


def run():
    launch(1)


def start():
    launcher(1)


@launcher_of(kernel=launch)
def again():
    pass


def resume():
    again()


def b():
    pass
"""


@pytest.mark.parametrize("module", ["vllm/kernels.py", "vllm/kernels/__init__.py"])
@pytest.mark.parametrize(
    "registry",
    [
        'def register():\n    f({"vllm.kernels.launch": impl.launch_impl, "vllm.kernels.b": c})\n',
        "def register():\n    vllm.kernels.launch = wrap(impl.launch)\n    vllm.kernels.b = c\n",
    ],
)
def test_a_patch_reads_what_its_function_replaces(tmp_path, registry, module):
    patch = patch_of(tmp_path, edits=[LAUNCH], concerns={"text": "def launch_impl"})
    files = {
        "vllm/impl.py": IMPL,
        "vllm/registry.py": f"from vllm import impl\n\n\n{registry}",
        module: KERNELS,
        "vllm/again.py": "def launch(x):\n    pass\n",
    }
    read = decide(recorded(patch, files), tree_of(files)).shape.definitions
    assert sorted(name for name in read if "impl.py" not in name) == [
        f"{module}::again",
        f"{module}::launch",
        f"{module}::launcher",
        f"{module}::resume",
        f"{module}::run",
        f"{module}::start",
        "vllm/registry.py::register",
    ]


def test_a_function_that_upstream_mended_is_read_with_its_users(tmp_path):
    patch = patch_of(tmp_path, edits=[LAUNCH], concerns={"text": "def launch_impl"})
    files = {
        "vllm/impl.py": IMPL.replace("(x)", "(x, y=0)"),
        "vllm/registry.py": REGISTRY,
    }
    known = recorded(patch, files)
    other = files | {"vllm/registry.py": REGISTRY.replace("impl.launch_impl", "impl.other")}
    assert [decide(known, tree_of(f)).state for f in (files, other)] == [State.UPSTREAMED] * 2
    assert [decide(known, tree_of(f)).new_shape for f in (files, other)] == [False, True]


def test_a_patch_reads_the_statement_around_a_definition(tmp_path):
    """The other branch may bring another definition of the same name."""
    patch = patch_of(tmp_path, edits=[LAUNCH], concerns={"text": "def launch_impl"})
    body = "    def launch_impl(x):\n        return x\n"
    files = {"vllm/impl.py": f"if FAST:\n    from vllm.fast import launch_impl\nelse:\n{body}"}
    known = recorded(patch, files)
    assert not decide(known, tree_of(files)).new_shape
    for old, new in (("if FAST", "if not FAST"), ("vllm.fast", "vllm.slow")):
        other = {"vllm/impl.py": files["vllm/impl.py"].replace(old, new)}
        decision = decide(known, tree_of(other))
        assert decision.state is State.NEEDED
        assert decision.new_shape


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("MODE = 1\n", "MODE, OTHER = 1, 2\n"),
        ("MODE = 1\n", "if UNUSED:\n    from vllm.modes import MODE\nelse:\n    MODE = 1\n"),
        ("MODE = 1\n", "MODE = 1\nfrom vllm.modes import *\n"),
    ],
)
def test_a_name_that_new_code_uses_may_come_from_any_statement(patch, old, new):
    first = changed(old, new)
    known = recorded(patch, first)
    assert not decide(known, tree_of(first)).new_shape
    second = first | {MODULE: first[MODULE].replace("1, 2", "3, 4").replace("modes", "others")}
    assert decide(known, tree_of(second)).new_shape


def test_a_patch_reads_the_base_class_of_what_its_new_code_names(tmp_path):
    edit = {"find": "return 1", "rewrite": "return self.limit"}
    patch = patch_of(tmp_path, edits=[edit], concerns={"text": "class Engine"})
    files = {
        MODULE: "from vllm.base import Base\n\n\nclass Engine(Base):\n    def f(self):\n"
        "        return 1\n",
        "vllm/base.py": "class Base:\n    def __init__(self):\n        self.limit = 1\n",
    }
    known = recorded(patch, files)
    renamed = files | {"vllm/base.py": files["vllm/base.py"].replace("limit", "most")}
    decision = decide(known, tree_of(renamed))
    assert decision.state is State.NEEDED
    assert decision.new_shape


def test_a_patch_reads_code_that_has_the_words_of_what_it_looks_for(tmp_path):
    """The same spelt otherwise: the edit passes it by, and the defect stays there."""
    edit = {"find": "self.draft = Config(model=$m)", "rewrite": "self.draft = Config($m)"}
    patch = patch_of(tmp_path, edits=[edit], concerns={"text": "class Engine"})
    files = {
        MODULE: "class Engine:\n    def f(self, m):\n        self.draft = Config(model=m)\n",
        OTHER: "class Copy:\n    def f(self, m):\n        return m\n",
    }
    known = recorded(patch, files)
    copy = files[OTHER].replace("return m", "config = Config(model=m)\n        self.draft = config")
    decision = decide(known, tree_of(files | {OTHER: copy}))
    assert decision.state is State.NEEDED
    assert decision.shape.differing == (ChangedDefinition("vllm/other.py::Copy.f", "added"),)


def test_definitions_of_one_name_are_all_kept():
    one = {"m.py::<statement>": "a", "m.py::f": "b"}
    other = {"m.py::<statement>": "c", "m.py::f": "b"}
    assert combined(one, other) == {
        "m.py::<statement>": "a",
        "m.py::<statement>#2": "c",
        "m.py::f": "b",
    }


def test_a_patch_reads_what_its_new_code_names_of_a_module(tmp_path):
    edit = {"find": "return 1", "rewrite": "return config.LIMIT"}
    patch = patch_of(tmp_path, edits=[edit], concerns={"text": "def f"})
    files = {
        "vllm/m.py": "from vllm import config\n\n\ndef f():\n    return 1\n",
        "vllm/config.py": "LIMIT = 1\nOTHER = 2\n",
    }
    read = decide(patch, tree_of(files)).shape.definitions
    assert sorted(read) == ["vllm/config.py::LIMIT", "vllm/m.py::config", "vllm/m.py::f"]


def test_a_renamed_class_is_absent_on_a_new_shape(patch):
    files = changed("class Engine", "class Motor")
    decision = decide(recorded(patch, FILES), tree_of(files))
    assert decision.state is State.ABSENT
    assert decision.new_shape
    assert ChangedDefinition("vllm/m.py::Engine.start", "removed") in decision.shape.differing


def test_absent_can_be_known(patch):
    without = {MODULE: "MODE = 1\n", OTHER: CALLED}
    both = recorded(patch, FILES, without)
    # A record holds, for each release, the definitions that the patch reads in any.
    assert "vllm/m.py::MODE" in watched(both.shapes, "vllm")
    first = decide(both, tree_of(without))
    assert (first.state, first.new_shape) == (State.ABSENT, True)
    known = both.shapes.shapes["vllm"]
    whole = known[1].model_copy(update={"definitions": dict(first.shape.definitions)})
    shapes = both.shapes.model_copy(update={"shapes": {"vllm": (known[0], whole)}})
    again = decide(replace(both, shapes=shapes), tree_of(without))
    assert again.shape.known == ("0.1.0",)


def test_a_moved_file_is_no_difference(patch):
    moved = {"vllm/new/m.py": SOURCE, OTHER: CALLED}
    assert not decide(recorded(patch, FILES), tree_of(moved)).new_shape


def test_a_second_copy_is_a_difference(patch):
    twice = FILES | {"vllm/n.py": SOURCE}
    declared = patch.declaration.edits[0].expect.model_copy(update={"at_least": 1, "count": None})
    edits = tuple(replace(edit, expect=declared) for edit in patch.variants[0].edits)
    lenient = replace(patch, variants=(replace(patch.variants[0], edits=edits),))
    decision = decide(recorded(lenient, FILES), tree_of(twice))
    assert decision.state is State.NEEDED
    assert decision.new_shape
    assert {one.kind for one in decision.shape.differing} == {"added"}


def test_the_same_code_with_another_state_is_new(patch):
    shapes = recorded(patch, FILES).shapes
    other = shapes.shapes["vllm"][0].model_copy(update={"state": "upstreamed"})
    wrong = replace(patch, shapes=shapes.model_copy(update={"shapes": {"vllm": (other,)}}))
    decision = decide(wrong, tree_of(FILES))
    assert decision.new_shape
    assert decision.shape.differing == ()


def test_a_record_of_another_edition_of_the_patch_proves_nothing(patch):
    known = recorded(patch, FILES)
    decision = decide(replace(known, digest="sha256:other"), tree_of(FILES))
    assert decision.new_shape
    assert decision.shape.stale


def test_a_patched_tree_is_known_by_what_the_patch_makes(patch):
    known = recorded(patch, FILES)
    tree = tree_of(FILES)
    made = patched(tree, plan([known], tree), carried=[patch.id])
    applied = decide(known, made)
    assert applied.state is State.APPLIED
    assert not applied.new_shape
    broken = made.files[MODULE].replace(b"return launch", b"return x or launch")
    still = decide(known, replace(made, files={**made.files, MODULE: broken}))
    assert still.state is State.APPLIED
    assert still.new_shape


def test_a_conflict_has_no_shape(patch):
    decision = decide(patch, tree_of(changed("launch(x)", "launch(x); launch(x)")))
    assert decision.state is State.CONFLICT
    assert decision.shape is None
    assert not decision.new_shape


def test_the_shape_is_that_of_the_pristine_tree(tmp_path, patch):
    first = patch_of(
        tmp_path,
        "first",
        edits=[{"find": "def start(...): ...", "add-keyword": {"y": "0"}}],
        concerns={"text": "class Engine"},
    )
    known = recorded(patch, FILES)
    decisions = plan([first, known], tree_of(FILES)).decisions
    assert [d.state for d in decisions] == [State.NEEDED, State.NEEDED]
    assert not decisions[1].new_shape


def test_a_statement_that_an_earlier_patch_edits_is_read_as_it_was(tmp_path):
    """The key of a statement is its digest, so the earlier edit changes it."""
    source = "if TYPE_CHECKING:\n    FIRST: int = 1\n    SECOND: int = 2\n\nOTHER = 3\n"
    first, second = (
        patch_of(
            tmp_path,
            name.lower(),
            edits=[{"insert": f"{name}_LIMIT: int = 0", "after": f"{name}: int = $_"}],
            concerns={"text": name},
        )
        for name in ("FIRST", "SECOND")
    )
    files = {MODULE: source}
    known = recorded(second, files)
    decisions = plan([first, known], tree_of(files)).decisions
    assert [d.state for d in decisions] == [State.NEEDED, State.NEEDED]
    assert not decisions[1].new_shape
    changed = {MODULE: source.replace("SECOND: int = 2", "SECOND: int = 2\n    THIRD: int = 3")}
    assert plan([first, known], tree_of(changed)).decisions[1].new_shape
