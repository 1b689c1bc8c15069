"""A vLLM of a few lines: it says one token after the other, and fails as FAKE_FAULT says."""

from __future__ import annotations

from tests.projects import write_tree

_COMMON = '''
import os, subprocess, sys, time
FAULT = os.environ.get("FAKE_FAULT", "")
__version__ = version = "0.50.0"

def load():
    if FAULT == "crash while loading":
        raise ValueError("no such layer")
    if FAULT == "out of memory":
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    if FAULT == "hang while loading":
        print("loading weights", flush=True)
        time.sleep(600)

class Request:
    """One request of a model whose drafts are all accepted."""

    def __init__(self, prompt, count, k):
        last = prompt[-1] if isinstance(prompt, list) else len(prompt)
        self.tokens = [last + 1 + n for n in range(count)]
        if FAULT == "loop":
            self.tokens = [n % 4 for n in range(count)]
        drafts = -(-(count - 1) // (k + 1)) if k else 0
        self.counters = {"drafts": drafts, "draft_tokens": drafts * k}
        self.counters["accepted_tokens"] = drafts * k
        self.positions = [drafts] * k

    @property
    def text(self):
        return " ".join(map(str, self.tokens))
'''
_OFFLINE = """
from types import SimpleNamespace

class SamplingParams:
    def __init__(self, **settings):
        self.count = settings["max_tokens"]

class _Engine:
    def __init__(self, speculative):
        self.vllm_config = SimpleNamespace(speculative_config=speculative)

    def step(self):
        if FAULT == "hang":
            print("waiting for the worker", flush=True)
            time.sleep(600)
        if FAULT == "killed":
            os.kill(os.getpid(), 9)
        time.sleep(0.01)

class LLM:
    def __init__(self, model, speculative_config=None, disable_log_stats=True, **flags):
        assert disable_log_stats is False
        load()
        asked = speculative_config or {}
        self.k = 0 if FAULT == "switched off" else asked.get("num_speculative_tokens", 0)
        told = SimpleNamespace(method=asked.get("method"), num_speculative_tokens=self.k)
        self.llm_engine = _Engine(told if self.k else None)
        self.counters = {}
        self.positions = [0] * self.k
        print("flags", sorted(flags.items()), flush=True)

    def generate(self, prompts, sampling, use_tqdm):
        assert use_tqdm is False
        outputs = []
        for prompt in prompts:
            self.llm_engine.step()
            shaped = prompt["prompt_token_ids"] if isinstance(prompt, dict) else prompt
            request = Request(shaped, sampling.count, self.k)
            for name, value in request.counters.items():
                self.counters[name] = self.counters.get(name, 0) + value
            self.positions = [a + b for a, b in zip(self.positions, request.positions)]
            one = SimpleNamespace(
                token_ids=request.tokens, text=request.text, finish_reason="length"
            )
            outputs.append(SimpleNamespace(outputs=[one]))
        if FAULT == "left behind":
            command = [sys.executable, "-c", "import time; time.sleep(600)"]
            subprocess.Popen(command, start_new_session=True)
        return outputs

    def get_metrics(self):
        prefix = "vllm:spec_decode_num_"
        found = [SimpleNamespace(name="vllm:generation_tokens", value=7)]
        # Three more at each look: in the first pass, and in each later one.
        self.looks = getattr(self, "looks", 0) + 1
        found += [
            SimpleNamespace(name="vllm:num_preemptions", value=3 * self.looks),
            SimpleNamespace(name="vllm:prefix_cache_hits", value=128 * self.looks),
        ]
        if self.k:
            found += [
                SimpleNamespace(name=prefix + name, value=value)
                for name, value in self.counters.items()
            ]
            name = prefix + "accepted_tokens_per_pos"
            found.append(SimpleNamespace(name=name, values=list(self.positions)))
        return found
"""
_SERVER = """
import argparse, json, os, signal, ssl, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from vllm import FAULT, Request, load
from vllm.layer import STRENGTH, __file__ as layer_file

parser = argparse.ArgumentParser()
for name in ("model", "served-model-name", "host", "tensor-parallel-size"):
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--port", type=int)
parser.add_argument("--speculative-config", type=json.loads, default={})
parser.add_argument("--enforce-eager", action=argparse.BooleanOptionalAction)
parser.add_argument("--rope-scaling", type=json.loads)
parser.add_argument("--max-model-len")
parser.add_argument("--max-num-seqs")
parser.add_argument("--gpu-memory-utilization")
parser.add_argument("--generation-config")
parser.add_argument("--capture-sizes", type=int, nargs="+")
parser.add_argument("--ssl-certfile")
parser.add_argument("--ssl-keyfile")
options = parser.parse_args()
print(options, flush=True)
load()
print("strength", STRENGTH, flush=True)
if FAULT == "tampers":
    with open(layer_file, "a") as layer:
        layer.write("# as it likes\\n")
K = options.speculative_config.get("num_speculative_tokens", 0)
if FAULT == "switched off":
    K = 0
LOCK, COUNTERS, POSITIONS, GENERATED, CACHED = threading.Lock(), {}, [0] * K, [0], [0]

def count(request):
    with LOCK:
        for name, value in request.counters.items():
            COUNTERS[name] = COUNTERS.get(name, 0) + value
        for index, value in enumerate(request.positions):
            POSITIONS[index] += value
        CACHED[0] += 0 if FAULT == "keeps nothing" else 4
        GENERATED[0] += len(request.tokens) + (1 if FAULT == "miscounted" else 0)

def metrics():
    yield "# TYPE vllm:generation_tokens_total counter"
    yield f'vllm:generation_tokens_total{{engine="0"}} {float(GENERATED[0])}'
    yield "# TYPE vllm:prefix_cache_hits_total counter"
    yield f'vllm:prefix_cache_hits_total{{engine="0"}} {float(CACHED[0])}'
    yield "# TYPE vllm:num_preemptions_total counter"
    yield f'vllm:num_preemptions_total{{engine="0"}} {float(GENERATED[0] // 8)}'
    if K:
        for name in ("drafts", "draft_tokens", "accepted_tokens"):
            yield f"# TYPE vllm:spec_decode_num_{name}_total counter"
            yield f'vllm:spec_decode_num_{name}_total{{engine="0"}} {float(COUNTERS.get(name, 0))}'
        yield "# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter"
        for index, value in enumerate(POSITIONS):
            labels = f'engine="0",position="{index}"'
            yield f"vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels}}} {float(value)}"

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, body, status=200):
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refused(self):
        key = os.environ.get("FAKE_KEY")
        known = not key or self.headers.get("Authorization") == f"Bearer {key}"
        if not known:
            self.answer("no", 401)
        return not known

    def do_GET(self):
        if self.path.startswith("/v1") and self.refused():
            return
        if self.path == "/health":
            self.answer("", 503 if FAULT == "never healthy" else 200)
        elif self.path == "/v1/models":
            name = "another" if FAULT == "another model" else options.served_model_name
            self.answer(json.dumps({"data": [{"id": name, "root": options.model}]}))
        elif self.path == "/version":
            self.answer(json.dumps({"version": "0.50.0"}))
        elif FAULT == "no metrics":
            self.answer("", 404)
        else:
            self.answer("\\n".join(metrics()) + "\\n")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.refused():
            return
        chat = self.path == "/v1/chat/completions"
        if chat and FAULT == "no chat template":
            message = "default chat template is no longer allowed"
            return self.answer(json.dumps({"error": {"message": message}}), 400)
        if FAULT == "refuses":
            return self.answer(json.dumps({"error": {"message": "no such thing"}}), 500)
        prompt = body["messages"][0]["content"] if chat else body["prompt"]
        request = Request(prompt, body["max_tokens"], K)
        usage = {"completion_tokens": len(request.tokens)}
        if body.get("stream"):
            self.stream(chat, request, usage)
        else:
            if FAULT == "another text":
                request.tokens[3] = 0
            count(request)
            content = {"message": {"content": request.text}} if chat else {"text": request.text}
            content["token_ids"] = request.tokens
            assert body["return_token_ids"]
            if FAULT == "not understood":
                return self.answer(json.dumps({"choices": [content]}))
            self.answer(json.dumps({"choices": [content], "usage": usage}))

    def stream(self, chat, request, usage):
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        if FAULT == "one piece":
            choice = {"text": request.text, "delta": {"content": request.text}}
            self.event({"choices": [choice | {"token_ids": request.tokens}]})
        for number, token in enumerate([] if FAULT == "one piece" else request.tokens):
            piece = f"{' ' if number else ''}{token}"
            choice = {"delta": {"content": piece}} if chat else {"text": piece}
            choice["token_ids"] = [token]
            if FAULT == "slow":
                time.sleep(0.4)
            self.event({"choices": [choice]})
            if number == 3 and FAULT == "hang":
                print("waiting for the worker", flush=True)
                time.sleep(600)
            if number == 3 and FAULT == "killed":
                print("EngineDeadError: EngineCore encountered an issue", flush=True)
                os._exit(1)
            if number == 3 and FAULT == "cut":
                self.close_connection = True
                return
        count(request)
        self.event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\\n\\n")
        self.close_connection = True

    def event(self, piece):
        self.wfile.write(f"data: {json.dumps(piece)}\\n\\n".encode())
        self.wfile.flush()

class Server(ThreadingHTTPServer):
    daemon_threads = True

server = Server((options.host, options.port), Handler)
if options.ssl_certfile:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.ssl_certfile, options.ssl_keyfile)
    server.socket = context.wrap_socket(server.socket, server_side=True)

def stop(*_):
    print("asked to end", flush=True)
    os._exit(7 if FAULT == "bad stop" else 0)

signal.signal(signal.SIGTERM, signal.SIG_IGN if FAULT == "deaf" else stop)
server.serve_forever()
"""
_BENCH = """
import argparse, json, os, time, urllib.request
from concurrent.futures import ThreadPoolExecutor
from vllm import FAULT

VALUES = ("backend endpoint base-url model served-model-name tokenizer dataset-name dataset-path "
    "percentile-metrics metric-percentiles result-dir result-filename extra-body tokenizer-mode")
NUMBERS = "input-len output-len num-prompts max-concurrency seed ready-check-timeout-sec"
SWITCHES = ("ignore-eos disable-tqdm save-result save-detailed skip-chat-template "
    "trust-remote-code")

def one(options, number):
    prompt = "word " * (options.input_len or 3) + f"{options.seed} {number}"
    body = {"prompt": prompt, "max_tokens": options.output_len, "stream": True}
    begun, times, error = time.perf_counter(), [], ""
    request = urllib.request.Request(
        options.base_url + options.endpoint, json.dumps(body).encode(), method="POST"
    )
    if os.environ.get("OPENAI_API_KEY"):
        request.add_header("Authorization", "Bearer " + os.environ["OPENAI_API_KEY"])
    try:
        with urllib.request.urlopen(request) as answer:
            for line in answer:
                if b'"text"' in line:
                    times.append(time.perf_counter())
    except OSError as raised:
        error = f"Traceback (most recent call last):\\n{raised}"
    gaps = [b - a for a, b in zip(times, times[1:])]
    return {"ttft": times[0] - begun if times else 0.0, "itl": gaps, "count": len(times),
            "error": error or ("" if times else "no answer")}

def figures(name, values):
    values = sorted(values) or [0.0]
    found = {f"mean_{name}_ms": 1000 * sum(values) / len(values)}
    for percent in (50, 95, 99):
        found[f"p{percent}_{name}_ms"] = 1000 * values[(len(values) - 1) * percent // 100]
    return found

class BenchmarkServingSubcommand:
    @classmethod
    def add_cli_args(cls, parser):
        for name in VALUES.split():
            parser.add_argument(f"--{name}")
        for name in NUMBERS.split():
            parser.add_argument(f"--{name}", type=int)
        for name in SWITCHES.split():
            parser.add_argument(f"--{name}", action="store_true")
        parser.add_argument("--temperature", type=float)

    @staticmethod
    def cmd(options):
        print(options, flush=True)
        if options.dataset_path:
            open(options.dataset_path).close()
        if FAULT == "client dies":
            raise ValueError("no such tokenizer")
        if FAULT == "client is silent":
            return
        if FAULT == "client hangs":
            time.sleep(600)
        begun = time.perf_counter()
        with ThreadPoolExecutor(options.max_concurrency) as pool:
            found = list(pool.map(lambda n: one(options, n), range(options.num_prompts)))
        seconds = time.perf_counter() - begun
        good = [each for each in found if not each["error"]]
        tokens = sum(each["count"] for each in good)
        result = {
            "duration": seconds, "completed": len(good), "failed": len(found) - len(good),
            "total_input_tokens": options.num_prompts * (options.input_len or 3),
            "total_output_tokens": tokens - (FAULT == "short answers"),
            "output_throughput": tokens / seconds,
            "output_lens": [each["count"] for each in found],
            "ttfts": [each["ttft"] for each in found], "itls": [each["itl"] for each in found],
            "errors": [each["error"] for each in found],
        }
        result |= figures("ttft", [each["ttft"] for each in good])
        rests = [(sum(each["itl"]), each) for each in good]
        result |= figures("tpot", [rest / (each["count"] - 1) for rest, each in rests])
        result |= figures("itl", [gap for each in good for gap in each["itl"]])
        result |= figures("e2el", [rest + each["ttft"] for rest, each in rests])
        if FAULT == "client of another time":
            del result["p95_itl_ms"]
        with open(f"{options.result_dir}/{options.result_filename}", "w") as file:
            json.dump(result, file)
"""
FAKE = {
    "vllm/__init__.py": _COMMON + _OFFLINE,
    "vllm/_version.py": "__version__ = version = '0.50.0'\n",
    "vllm/platforms.py": "class current_platform:\n"
    "    is_cpu = staticmethod(lambda: True)\n    is_cuda = staticmethod(lambda: False)\n",
    "vllm/collect_env.py": "print('a fake environment')\n",
    "vllm/entrypoints/__init__.py": "",
    "vllm/entrypoints/openai/__init__.py": "",
    "vllm/entrypoints/openai/api_server.py": _SERVER,
    "vllm/entrypoints/cli/__init__.py": "",
    "vllm/entrypoints/cli/benchmark/__init__.py": "",
    "vllm/entrypoints/cli/benchmark/serve.py": _BENCH,
    "vllm/utils/__init__.py": "",
    "vllm/utils/argparse_utils.py": "import argparse\n\n\n"
    "class FlexibleArgumentParser(argparse.ArgumentParser):\n"
    "    def __init__(self, prog):\n        super().__init__(prog=prog, allow_abbrev=False)\n",
    "vllm/layer.py": "STRENGTH = 1\n",
    "vllm/dies.py": "import multiprocessing, os\n"
    "if multiprocessing.parent_process():\n    os.abort()\n",
}


def write_fake(folder):
    return write_tree(folder, {path: text.encode() for path, text in FAKE.items()})
