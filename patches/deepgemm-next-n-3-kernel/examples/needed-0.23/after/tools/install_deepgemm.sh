#!/bin/bash
set -e

# Default values
# Keep DEEPGEMM_GIT_REF in sync with cmake/external_projects/deepgemm.cmake
DEEPGEMM_GIT_REPO="https://github.com/deepseek-ai/DeepGEMM.git"
DEEPGEMM_GIT_REF="57b90e0"

# Clone the repository
# deepseek-ai/DeepGEMM#340, which no branch contains
git clone --recursive --shallow-submodules \
    --config "remote.origin.fetch=+refs/pull/340/head:refs/remotes/origin/pull/340" \
    "$DEEPGEMM_GIT_REPO" "$INSTALL_DIR/deepgemm"
pushd "$INSTALL_DIR/deepgemm"

# Checkout the specific reference
git checkout "$DEEPGEMM_GIT_REF"
