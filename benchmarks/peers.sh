#!/usr/bin/env bash
# Makes the environment of what the benchmark compares with, apart from the service's own.
set -euo pipefail
cd "$(dirname "$0")"
venv="${XDG_CACHE_HOME:-$HOME/.cache}/tokenizer-service-bench/peers"
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement peers.txt
