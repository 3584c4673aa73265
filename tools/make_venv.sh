#!/bin/sh
# Makes .venv, or brings it up to date: Python, pinned TensorFlow and test tools, Horovod, and this package, editable.
# Does nothing when the stamp in .venv says that all is there. Run from the repository's root; `make build` does.
set -u
cd "$(dirname "$0")/.."
venv=.venv
stamp=$venv/tf_booster.stamp
mkdir -p build

die() {
  echo "tf_booster: $*" >&2
  exit 1
}

suitable() {  # True if $1 is a Python that TensorFlow 2.15 has wheels for.
  "$1" -c 'import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 11))' 2>/dev/null
}

find_python() {
  for candidate in ${BASE_PYTHON:-} python3.11 python3.10 python3.9 python3 python \
      "$HOME"/.pyenv/versions/3.11*/bin/python "$HOME"/.pyenv/versions/3.10*/bin/python "$HOME"/.pyenv/versions/3.9*/bin/python; do
    suitable "$candidate" && echo "$candidate" && return
  done
  return 1
}

# Runs pip on .venv; says in one line what went wrong, the rest is in build/pip.log.
pip() {
  "$venv/bin/python" -m pip --disable-pip-version-check "$@" > build/pip.log 2>&1 && return
  if grep -qE 'NewConnectionError|NameResolution|ConnectTimeout|ProxyError|Network is unreachable|Connection refused|ConnectionResetError|Temporary failure' \
      build/pip.log; then
    die "no package index answers; connect to the network, or point PIP_INDEX_URL or PIP_FIND_LINKS at one (build/pip.log)"
  fi
  die "pip failed: $(grep -E '^ *(ERROR|error|tf_booster):?' build/pip.log | head -n 1) (build/pip.log)"
}

# Debian splits ensurepip off into python3-venv; without it, pip comes from the package index.
fetch_pip() {
  "$venv/bin/python" - > build/pip.log 2>&1 <<'END' ||
import os, re, subprocess, sys, urllib.parse, urllib.request
index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/") + "/pip/"
page = urllib.request.urlopen(index, timeout=60).read().decode()
link = re.findall(r'href="([^"]*/pip-25[^"/]*-py3-none-any\.whl)[#"]', page)[-1]
wheel = os.path.abspath("build/" + os.path.basename(link))
urllib.request.urlretrieve(urllib.parse.urljoin(index, link), wheel)
subprocess.run([sys.executable, wheel + "/pip", "install", "--no-index", wheel], check=True)
END
    die "this Python has no pip and none could be fetched; sudo apt-get install python3-venv, then make build again"
}

suitable "$venv/bin/python" || {
  python=$(find_python) || die "no Python 3.9 to 3.11 found; install one (sudo apt-get install python3.11 python3.11-venv," \
    "or pyenv or uv) and, if it is not on PATH, name it: make build BASE_PYTHON=/path/to/python3.11"
  rm -rf "$venv"
  echo "making $venv with $("$python" --version)"
  "$python" -m venv "$venv" > build/venv.log 2>&1 || { rm -rf "$venv"; "$python" -m venv --without-pip "$venv"; } ||
    die "$python cannot make virtual environments; sudo apt-get install python3-venv"
}

kind=cpu
nvidia-smi -L > /dev/null 2>&1 && kind=gpu
wanted="$kind $("$venv/bin/python" --version) $(cat tools/make_venv.sh tools/build_horovod.sh tools/requirements*.txt pyproject.toml | cksum)"
if [ "$(head -n 1 "$stamp" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

command -v g++ > /dev/null || die "no C++ compiler found; sudo apt-get install g++"
echo 'int main() { if constexpr (true) return 0; }' > build/cxx17.cc
g++ -std=c++17 build/cxx17.cc -o build/cxx17 2> build/cxx17.log ||
  die "g++ does not compile C++17 ($(head -n 1 build/cxx17.log)); sudo apt-get install g++"

"$venv/bin/python" -m pip --version > /dev/null 2>&1 || fetch_pip
echo "installing TensorFlow 2.15.1 ($kind) and tools"
pip install -r "tools/requirements-$kind.txt"
horovod=$(tools/build_horovod.sh "$kind")
echo "building tf_booster"
pip install --no-build-isolation --no-deps -e .
printf '%s\n%s\n' "$wanted" "$horovod" > "$stamp"
echo "$venv is ready. $horovod"
