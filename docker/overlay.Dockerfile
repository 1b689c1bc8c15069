# Patched files over the vLLM of a base, verified; vpatch build-image writes the context and arguments.
ARG BASE
# The base is named by digest.
# hadolint ignore=DL3006
FROM ${BASE}
# The packages belong to root, whoever the base runs as.
USER 0
COPY image /
# In one step with what it checks: a layer without the verified state is never made. Nothing is
# removed: the mark that a layer has for that bears the time of the build.
RUN python3 -B /opt/vpatch/build/install.py /opt/vpatch
ARG BASE_USER=0
USER ${BASE_USER}
