#!/bin/sh
# Starts the program of /opt/vllm/bin that has this name, also for a user without an entry in
# /etc/passwd (docker run --user 1000). Such a user has no name and a home that is not writable, and
# then vLLM fails. A name that is set, and a home that is writable, stay.
if [ ! -w "${HOME:-/}" ] || { [ "${HOME:-/}" = / ] && [ "$(id -u)" != 0 ]; }; then
    HOME=/home/vllm
    if [ ! -w "$HOME" ]; then HOME="$(mktemp -d /tmp/home.XXXXXX)" || exit; fi
    export HOME
fi
if [ -z "${USER:-}" ]; then
    USER="$(id -un 2>/dev/null)" || USER=vllm
    export USER
fi
exec "/opt/vllm/bin/${0##*/}" "$@"
