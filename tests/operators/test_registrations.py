"""Which operators C++ sources register. Nothing compiles these sources."""

from __future__ import annotations

import pytest

from vpatch.operators.registrations import read_registrations


def built(code, cmake=None, path="csrc/ops.cpp"):
    builds = {} if cmake is None else {"CMakeLists.txt": cmake.encode()}
    return read_registrations({path: code.encode()}, builds)


def states(code, *names, **more):
    read = built(code, **more)
    return [read.has(name) for name in names]


BLOCK = "TORCH_LIBRARY(_C, ops) {{\n{}\n}}\n"
WAYS = {
    'ops.def("one(Tensor! out) -> ()");': True,
    'ops.def(\n  "one("\n  "Tensor a) -> Tensor");': True,
    'ops.def("one", &one);': True,
    'ops.def(torch::schema("one(Tensor a) -> ()"));': True,
    'm.def(TORCH_SELECTIVE_SCHEMA("_C::one(Tensor a) -> ()"), {stride_tag});': True,
    '// ops.def("one(Tensor a) -> ()");': False,
    '/* ops.def("one() -> ()");\n "*/ int x;': False,
    'auto text = "// no comment"; ops.def("one() -> ()");': True,
    'char c = \'"\'; ops.def("one() -> ()");': True,
    "int n = 1'000; ops.def(\"one() -> ()\"); int m = 2'000;": True,
    'ops.def("onetwo() -> ()");': False,
    'ops.def("one.out(Tensor! out) -> ()");': False,
    '#ifdef USE_IT\nops.def("one() -> ()");\n#endif': None,
    '#ifndef USE_ROCM\nint x;\n#else\nops.def("one() -> ()");\n#endif': None,
    '#if 0\nops.def("one() -> ()");\n#endif': False,
    '#ifdef A\nint x;\n#endif\nops.def("one() -> ()");': True,
    'if (with_one) { ops.def("one() -> ()"); }': None,
    'ops.impl("one", torch::kCUDA, &one);': None,
    "DEFINE_ALL(ops)": None,
    'REGISTER("one")': None,
    "register_more(&ops);": None,
    "ops.def(name_of(one));": None,
    'ops.def("on" NAME "() -> ()");': None,
    '#include "more.inc"': None,
    'TORCH_CHECK(true, "ops"); ops.impl("two", TORCH_BOX(&two));': False,
}


@pytest.mark.parametrize("code", WAYS)
def test_a_name_is_there_missing_or_unsure(code):
    assert states(BLOCK.format(code), "_C.one") == [WAYS[code]]


HEADS = {
    "TORCH_LIBRARY(_C, ops)": "_C",
    "TORCH_LIBRARY_FRAGMENT(_moe_C, m)": "_moe_C",
    "STABLE_TORCH_LIBRARY_FRAGMENT(_C, m)": "_C",
    "TORCH_LIBRARY_EXPAND(CONCAT(_C, _ascend), ops)": "_C_ascend",
    "TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops)": "_made_C",
    "TORCH_LIBRARY_EXPAND(CONCAT(TORCH_EXTENSION_NAME, _cache_ops), ops)": "_made_C_cache_ops",
    "#define MINE _C\nTORCH_LIBRARY(MINE, ops)": "_C",
}
CMAKE = """
# define_extension_target(_other_C SOURCES csrc/ops.cpp)
set(SOURCES "csrc/other.cpp")
list(APPEND SOURCES "${ROOT}/csrc/ops.cpp")
set(EVERYTHING ${SOURCES} ${EVERYTHING})
define_gpu_extension_target(
  _made_C
  DESTINATION plugin
  SOURCES ${EVERYTHING})
"""


@pytest.mark.parametrize("head", HEADS)
def test_a_namespace_is_that_of_the_macro_or_of_the_build(head):
    read = built(head + ' {\n  ops.def("one() -> ()");\n}', CMAKE)
    assert list(read.places) == [HEADS[head]]
    assert read.has(f"{HEADS[head]}.one") is True
    assert read.whole == ({HEADS[head]} if "FRAGMENT" not in head else set())


def test_setup_py_names_an_extension():
    setup = b'setup(ext_modules=[CUDAExtension(name="plugin._C", sources=["csrc/ops.cpp"])])'
    code = b'TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, m) { m.def("one() -> ()"); }'
    read = read_registrations({"csrc/ops.cpp": code}, {"setup.py": setup})
    assert read.has("_C.one") is True


GLOBS = {"csrc/*.cpp": True, "${ROOT}/csrc/*.cpp": True, "*.cpp": True, "ops.cpp": True}
GLOBS |= {"${EVERYTHING}": None, "other/*.cpp": None, "s.cpp": None}


@pytest.mark.parametrize("glob", GLOBS)
def test_a_build_may_name_its_sources_with_a_pattern(glob):
    cmake = f"file(GLOB SOURCES {glob} x.cu)\nadd_library(_C ${{SOURCES}})\n"
    assert states(BLOCK.format('ops.def("one() -> ()");'), "_C.one", cmake=cmake) == [GLOBS[glob]]


@pytest.mark.parametrize("cmake", ["", CMAKE + "Python_add_library(_b_C MODULE csrc/ops.cpp)\n"])
def test_a_namespace_that_nothing_tells_makes_all_unsure(cmake):
    code = 'TORCH_LIBRARY(TORCH_EXTENSION_NAME, m) { m.def("one() -> ()"); }\n'
    assert states(code, "_C.one", "_C.two", cmake=cmake) == [None, None]


def test_a_source_that_no_build_file_names_is_perhaps_not_built():
    code = BLOCK.format('ops.def("one() -> ()");')
    assert states(code, "_C.one", "_C.two", cmake=CMAKE) == [True, False]
    assert states(code, "_C.one", cmake=CMAKE, path="csrc/old.cpp") == [None]


def test_overloads_are_told_apart():
    read = built(BLOCK.format('ops.def("one.out(Tensor! out) -> ()");'))
    assert [read.has("_C.one.out"), read.has("_C.one")] == [True, False]
    assert read.has("_C.one", any_overload=True) is True


HOSTILE = {
    "open": "TORCH_LIBRARY(_C, ops) {" * 20_000,
    "conditions": "#if 0\n" * 100_000 + "TORCH_LIBRARY(_C, o) {}",
    "texts": 'TORCH_LIBRARY(_C, o) { o.def("' * 20_000,
    "raw": 'TORCH_LIBRARY(_C, o) { R"(' * 20_000,
    "brackets": "TORCH_LIBRARY" + "(" * 200_000,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_source_is_read_to_its_end(kind):
    read = built(HOSTILE[kind])
    assert read.sure == set()


def test_variables_that_name_each_other_end():
    cmake = "set(A ${A} ${B})\nset(B ${A} ${A} ${B})\nadd_library(_C ${A} csrc/ops.cpp)\n"
    assert states(BLOCK.format('ops.def("one() -> ()");'), "_C.one", cmake=cmake) == [True]
