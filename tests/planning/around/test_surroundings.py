"""What is around the code that a patch reads: each kind of change there makes a state unsure."""

from __future__ import annotations

from dataclasses import replace
from textwrap import indent

import pytest

from tests.helpers import decide, patch_of, tree_of
from tests.records import archive_of, recorded
from vpatch.planning.code_shape import Sureness
from vpatch.planning.plan import plan
from vpatch.planning.shape import describe_shape
from vpatch.planning.state import State
from vpatch.workspace.plans import patched_tree

DECODER, LIMITS, ROUTES, SERVER, ENVS = (
    f"vllm/{name}.py" for name in ("decoder", "limits", "routes", "server", "envs")
)
FILES = {
    DECODER: """
import functools

from vllm import envs
from vllm.limits import MAX_BYTES, size_of


def traced(cls):
    return cls


class AudioBase:
    def convert_audio(self, data):
        return data

    def close_audio(self):
        return None


@traced
class AudioDecoder(AudioBase):
    chunk_bytes = 4

    def __init__(self, limit_bytes):
        self.limit_bytes = limit_bytes

    def check_audio(self, data):
        if not data:
            raise ValueError(data)

    def decode_audio(self, data):
        self.check_audio(data)
        if size_of(data) > MAX_BYTES:
            raise ValueError(data)
        chunks = self.chunk_bytes * envs.VLLM_AUDIO_CHUNKS
        return open_audio(self.convert_audio(data), self.limit_bytes, chunks)


def open_audio(data, limit_bytes, chunks, strict=False):
    return data[:limit_bytes]
""",
    LIMITS: """
MAX_BYTES = 1000


def size_of(data):
    return len(data)


def format_size(number):
    return f"{number} bytes"
""",
    ROUTES: """
from vllm.decoder import AudioDecoder


def transcribe_request(request):
    decoder = AudioDecoder(3)
    if not request.data:
        return None
    return decoder.decode_audio(request.data)


def health_request(request):
    return "ok"
""",
    SERVER: """
from vllm.routes import health_request, transcribe_request


def serve_audio(request):
    return transcribe_request(request)


ROUTES = {"/audio": serve_audio, "/health": health_request}
""",
    ENVS: """
environment_variables = {
    "VLLM_AUDIO_CHUNKS": lambda: 4,
    "VLLM_PORT": lambda: 80,
    "A": 0, "B": 0, "C": 0, "D": 0, "E": 0, "F": 0, "G": 0, "H": 0, "I": 0, "J": 0, "K": 0,
    "L": 0, "M": 0, "N": 0, "O": 0,
}


def __getattr__(name):
    return environment_variables[name]()
""",
}
EDIT = {
    "find": "open_audio($data, self.limit_bytes, $chunks)",
    "rewrite": "open_audio($data, self.limit_bytes, $chunks, strict=True)",
}


@pytest.fixture(name="patch", scope="module")
def fixture_patch(tmp_path_factory):
    folder = tmp_path_factory.mktemp("patch")
    concerns = {"text": "class AudioDecoder"}
    resolves = [{"id": "CVE-2026-1234", "source": "https://example.org", "as-of": "2026-11-01"}]
    return recorded(patch_of(folder, edits=[EDIT], concerns=concerns, resolves=resolves), FILES)


def changed(path, old, new):
    assert old in FILES[path]
    return FILES | {path: FILES[path].replace(old, new)}


def added(path, text):
    return FILES | {path: FILES.get(path, "") + text}


OTHER = "vllm/shims.py"
KINDS = {
    "a callee": [
        changed(LIMITS, "return len(data)", "return 0"),
        changed(
            DECODER,
            "    def convert_audio(self, data):\n        return data",
            "    def convert_audio(self, data):\n        return data * 2",
        ),
        changed(DECODER, "if not data:", "if False:"),
        changed(DECODER, "return data[:limit_bytes]", "return data"),
    ],
    "a caller": [
        changed(
            ROUTES,
            "    if not request.data:",
            "    if request.old:\n        return request.data\n    if not request.data:",
        ),
        changed(
            ROUTES,
            "decoder.decode_audio(request.data)",
            "decoder.decode_audio(request.data) if request.safe else request.data",
        ),
        changed(
            SERVER,
            "    return transcribe_request",
            "    if request.fast:\n        return request.data\n    return transcribe_request",
        ),
        changed(SERVER, '"/audio": serve_audio, ', ""),
    ],
    "a constant": [
        changed(LIMITS, "MAX_BYTES = 1000", "MAX_BYTES = None"),
        changed(DECODER, "chunk_bytes = 4", "chunk_bytes = 0"),
        changed(ENVS, '"VLLM_AUDIO_CHUNKS": lambda: 4', '"VLLM_AUDIO_CHUNKS": lambda: 0'),
        added(OTHER, "from vllm import limits\n\nlimits.MAX_BYTES = 0\n"),
    ],
    "a field": [
        changed(DECODER, "self.limit_bytes = limit_bytes", "self.limit = limit_bytes"),
        changed(DECODER, "self.limit_bytes = limit_bytes", "self.limit_bytes = None"),
        changed(DECODER, "    chunk_bytes = 4", "    chunk_size = 4"),
        added(DECODER, "\n\nAudioDecoder.chunk_bytes = 0\n"),
    ],
    "a name that is something else": [
        changed(
            DECODER,
            "from vllm.limits import MAX_BYTES, size_of",
            "from vllm.limits import MAX_BYTES\nfrom vllm.sizes import size_of",
        ),
        changed(
            DECODER,
            "from vllm.limits import MAX_BYTES, size_of",
            "from vllm.limits import MAX_BYTES, format_size as size_of",
        ),
        changed(
            DECODER,
            "from vllm.limits import MAX_BYTES, size_of",
            "try:\n    from vllm.limits import MAX_BYTES, size_of\nexcept ImportError:\n"
            "    size_of = MAX_BYTES = None",
        ),
        added(
            DECODER,
            "\n\nif envs.VLLM_OLD:\n    AudioDecoder.decode_audio = AudioBase.convert_audio\n",
        ),
        added(OTHER, "from vllm.decoder import AudioDecoder\n\nAudioDecoder.decode_audio = None\n"),
        added(
            OTHER,
            "from vllm.decoder import AudioDecoder\n\n"
            'setattr(AudioDecoder, "decode_audio", None)\n',
        ),
    ],
    "a subclass": [
        added(
            OTHER,
            "from vllm.decoder import AudioDecoder\n\n\nclass Fast(AudioDecoder):\n"
            "    def decode_audio(self, data):\n        return data\n",
        ),
        added(
            DECODER,
            "\n\nclass Fast(AudioDecoder):\n    def decode_audio(self, data):\n"
            "        return data\n",
        ),
        added(
            OTHER,
            "import vllm.decoder\n\n\nclass Fast(vllm.decoder.AudioDecoder):\n"
            "    def decode_audio(self, data):\n        return data\n",
        ),
        added(
            OTHER,
            "from vllm.decoder import AudioDecoder as Base\n\n\nclass Fast(Base):\n"
            "    def decode_audio(self, data):\n        return data\n",
        ),
    ],
    "a class": [
        changed(DECODER, "@traced\nclass", "@functools.cache\nclass"),
        changed(DECODER, "class AudioDecoder(AudioBase):", "class AudioDecoder(AudioBase, dict):"),
        changed(DECODER, "    return cls", "    return dict"),
        changed(
            DECODER,
            "    chunk_bytes = 4\n",
            "    chunk_bytes = 4\n\n    def __getattribute__(self, name):\n        return None\n",
        ),
    ],
    "a second way": [
        added(
            OTHER,
            "from vllm import envs\nfrom vllm.decoder import open_audio\n\n\ndef upload(data):\n"
            "    return open_audio(data, 3, envs.VLLM_AUDIO_CHUNKS)\n",
        ),
        added(
            DECODER,
            "\n\ndef upload(data):\n    return open_audio(data, 3, envs.VLLM_AUDIO_CHUNKS)\n",
        ),
        added(
            ROUTES,
            "\n\ndef upload(decoder, data):\n"
            "    return decoder.convert_audio(data)[: decoder.limit_bytes * decoder.chunk_bytes]\n"
            "",
        ),
        added(
            SERVER, "\n\ndef stream_request(decoder, request):\n    decoder.decode_audio(request)\n"
        ),
    ],
    "another name or place": [
        {path: text.replace("AudioDecoder", "SoundDecoder") for path, text in FILES.items()},
        {path: text.replace("decode_audio", "decode_sound") for path, text in FILES.items()},
        {k: v for k, v in FILES.items() if k != DECODER}
        | {OTHER: FILES[DECODER].replace("AudioDecoder", "Sound")},
        {ROUTES: "x = 1\n"},
    ],
}
# So many files have the class, the method and the function that only some of them are read.
COMMON = {
    f"vllm/common_{n}.py": (
        "def help_with(decoder):\n    print(decoder.open_audio)\n"
        "    return decoder.AudioDecoder.decode_audio\n"
    )
    for n in range(30)
}
OF_MANY = {
    "assigned from elsewhere": added(
        OTHER, "from vllm.decoder import AudioDecoder\n\nAudioDecoder.decode_audio = None\n"
    ),
    "assigned by its full name": added(
        OTHER, "import vllm.decoder\n\nvllm.decoder.AudioDecoder.decode_audio = None\n"
    ),
    "assigned under another name": added(
        OTHER, "from vllm.decoder import AudioDecoder as D\n\nsetattr(D, 'decode_audio', None)\n"
    ),
    "replaced by a helper": added(
        OTHER,
        "import vllm.decoder\n\npatch.object(vllm.decoder.AudioDecoder, 'decode_audio', None)\n",
    ),
    "a callee assigned from elsewhere": added(
        OTHER, "from vllm.decoder import AudioDecoder\n\nAudioDecoder.check_audio = print\n"
    ),
    "a caller in its module": changed(
        DECODER,
        "def open_audio(",
        "def decode_all(decoder):\n    return decoder.decode_audio(1)\n\n\ndef open_audio(",
    ),
    "a caller that imports the class": added(
        OTHER,
        "from vllm.media import AudioDecoder\n\n\ndef upload(data):\n"
        "    return AudioDecoder(1).decode_audio(data)\n",
    ),
    "a base's constructor": changed(
        DECODER,
        "    def close_audio(self):",
        "    def __init__(self):\n        self.closed = 1\n\n    def close_audio(self):",
    ),
}
HARMLESS = {
    "a comment": changed(LIMITS, "def size_of(data):", "# How much it is.\ndef size_of(data):"),
    "a docstring": changed(LIMITS, "def size_of(data):", 'def size_of(data):\n    """The size."""'),
    "an annotation": changed(LIMITS, "def size_of(data):", "def size_of(data: bytes) -> int:"),
    "a log line": changed(ROUTES, "    if not", "    logger.info('%s', request)\n    if not"),
    "a local": FILES
    | {ROUTES: FILES[ROUTES].replace("decoder = ", "own = ").replace("decoder.dec", "own.dec")},
    "another local": changed(ROUTES, "    decoder =", "    own = 3\n    decoder ="),
    "code of another function": changed(LIMITS, "{number} bytes", "{number} B"),
    "a new function": added(LIMITS, "\n\ndef half(number):\n    return number // 2\n"),
    "a new module": added(OTHER, "def greet(who):\n    return who\n"),
    "another item of a table": changed(ENVS, "lambda: 80", "lambda: 81"),
    "another error": changed(
        ROUTES,
        "    if not",
        "    try:\n        a()\n    except OSError:\n        raise ValueError\n    if not",
    ),
    "code after the call": changed(ROUTES, 'return "ok"', 'return "fine"'),
}


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(files, id=f"{kind} {n}")
        for kind, cases in KINDS.items()
        for n, files in enumerate(cases)
    ],
)
def test_a_change_around_the_code_is_seen(patch, files):
    decision = decide(patch, tree_of(files))
    assert decision.is_unsure or decision.state.stops


@pytest.mark.parametrize(
    "text",
    [
        'import ops\n\nHAS_FAST = hasattr(ops, "fast_audio")\n',
        'import ops\n\n\ndef is_fast():\n    return getattr(ops, "fast_audio", None)\n',
    ],
)
def test_whoever_asks_for_what_new_code_declares_is_around(tmp_path, text):
    rewrite = EDIT["rewrite"].replace("True", 'functools.define("fast_audio")')
    patch = patch_of(
        tmp_path, edits=[EDIT | {"rewrite": rewrite}], concerns={"text": "class AudioDecoder"}
    )
    decision = decide(recorded(patch, FILES), tree_of(added(OTHER, text)))
    assert decision.sureness is Sureness.CHANGED_AROUND


@pytest.fixture(name="common_patch", scope="module")
def fixture_common_patch(patch):
    return recorded(patch, COMMON | FILES)


@pytest.mark.parametrize("files", OF_MANY.values(), ids=OF_MANY)
def test_a_change_around_common_names_is_seen(common_patch, files):
    decision = decide(common_patch, tree_of(COMMON | files))
    assert decision.sureness is Sureness.CHANGED_AROUND


def test_other_code_with_common_names_is_no_doubt(common_patch):
    other = added(OTHER, "\n\ndef play(sound):\n    return sound.decode_audio(1)\n")
    decision = decide(common_patch, tree_of(COMMON | other))
    assert decision.sureness is Sureness.KNOWN


@pytest.mark.parametrize("files", HARMLESS.values(), ids=HARMLESS)
def test_a_change_that_means_nothing_is_no_doubt(patch, files):
    decision = decide(patch, tree_of(files))
    assert (decision.state, decision.sureness) == (State.NEEDED, Sureness.KNOWN), (
        decision.shape.around
    )


def test_what_only_had_names_in_common_and_is_gone_is_no_doubt(tmp_path):
    other = "\n\ndef upload(data):\n    return MAX_BYTES, chunk_bytes, limit_bytes, convert_audio\n"
    patch = patch_of(tmp_path, edits=[EDIT], concerns={"text": "class AudioDecoder"})
    decision = decide(recorded(patch, added(OTHER, other)), tree_of(FILES))
    assert decision.sureness is Sureness.KNOWN
    moved = {"vllm/elsewhere.py": "class Uploads:\n" + indent(other.strip(), "    ")}
    decision = decide(recorded(patch, added(OTHER, other)), tree_of(FILES | moved))
    assert decision.sureness is Sureness.KNOWN
    decision = decide(recorded(patch, FILES), tree_of(added(OTHER, other)))
    assert decision.sureness is Sureness.CHANGED_AROUND


@pytest.mark.parametrize(("number", "sureness"), [(10, "known shape"), (3, "changed around")])
def test_names_that_are_all_of_many_files_are_no_doubt(tmp_path, number, sureness):
    shared = ["ValueError", "check_audio", "chunk_bytes"]
    names = [*shared, "convert_audio", "size_of", "MAX_BYTES", "envs", "self", "data"]
    uses = {f"vllm/{n}_{i}.py": f"print({n})\n" for n in names for i in range(1, number)}
    uses |= {f"vllm/{n}_0.py": f"print({n})\n" for n in names if n not in shared}
    before = FILES | uses | {OTHER: f"print({', '.join(shared)})\n"}
    after = before | {OTHER: f"def upload():\n    print({', '.join(shared)})\n"}
    patch = patch_of(tmp_path, edits=[EDIT], concerns={"text": "class AudioDecoder"})
    assert decide(recorded(patch, before), tree_of(after)).sureness == sureness


def test_people_are_told_what_differs(patch):
    decision = decide(patch, tree_of(KINDS["a callee"][0]))
    told = "changed around: the code is as in 0.0.0; what is around it differs in size_of"
    assert describe_shape(decision.shape) == told
    same = decide(patch, tree_of(FILES))
    told = "known shape: the code is as in 0.0.0, and what is around it as in 0.0.0"
    assert describe_shape(same.shape) == told


def test_an_archive_on_record_is_not_compared(patch):
    released = decide(patch, tree_of(FILES, version="0.0.0", digest=archive_of("0.0.0")))
    assert (released.sureness, released.shape.surroundings) == (Sureness.ON_RECORD, None)
    other = decide(patch, tree_of(FILES, version="0.0.0", digest=archive_of("0.0.1")))
    assert other.sureness is Sureness.KNOWN


def test_what_patches_alone_make_of_an_archive_on_record_is_known(patch, tmp_path):
    """Even if it is read as something else because of another patch."""
    copy = (
        "def upload(open_audio, own, envs):\n"
        "    return open_audio(1, own.limit_bytes, own.chunk_bytes * envs.VLLM_AUDIO_CHUNKS)\n"
    )
    unknown = patch_of(
        tmp_path,
        "other",
        {"copy.py": copy},
        concerns={"text": "class AudioDecoder"},
        edits=[{"add-file": "vllm/fast.py", "from": "copy.py"}],
    )
    other = recorded(unknown, FILES)
    tree = tree_of(FILES, version="0.0.0", digest=archive_of("0.0.0"))
    made = patched_tree(tree, plan([patch, other], tree))
    assert sorted(made.carried) == ["fix", "other"]

    def decision(tree, others):
        asked = [patch, *others]
        return plan(asked, tree, alone=[one.id for one in asked]).decisions[0]

    found = decision(made, [other])
    assert (found.state, found.sureness) == (State.APPLIED, Sureness.KNOWN)
    # Nobody has recorded what this patch makes, or the patch is not known at all.
    assert decision(made, [unknown]).sureness is Sureness.CHANGED_AROUND
    assert decision(made, []).sureness is Sureness.CHANGED_AROUND
    # The base must be the archive: else, what is around the code is read.
    elsewhere = replace(made, made_of=replace(tree.pin, digest=archive_of("0.0.1")))
    upload = "vllm/fast.py::upload"
    assert upload not in found.shape.surroundings
    assert upload in decision(elsewhere, [other]).shape.surroundings
    assert decision(elsewhere, [unknown]).sureness is Sureness.CHANGED_AROUND


def test_a_record_without_what_is_around_is_no_proof(patch):
    shapes = patch.shapes.model_copy(update={"archives": {}, "surroundings": {}})
    decision = decide(replace(patch, shapes=shapes), tree_of(FILES))
    assert decision.sureness is Sureness.CHANGED_AROUND
    assert describe_shape(decision.shape).endswith("nothing is recorded of what is around it")
