# Patched files over the vLLM of a base, verified; vpatch build-image writes the context and arguments.
ARG BASE
# The base is named by digest.
# hadolint ignore=DL3006
FROM ${BASE}
# The packages belong to root, whoever the base runs as.
USER 0
COPY vpatch /opt/vpatch
# In one step with what it checks: a layer without the verified state is never made.
RUN python3 -B /opt/vpatch/install.py /opt/vpatch \
    && rm -r /opt/vpatch/install.py /opt/vpatch/verify.py
ARG BASE_USER=0
USER ${BASE_USER}
