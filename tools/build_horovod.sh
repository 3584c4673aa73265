#!/bin/sh
# Installs Horovod 0.28.1 into .venv: Gloo always, NCCL with a GPU. Prints one line: that it is there, or why it is not.
# The wheel is built once (90 s on two cores) and kept for this Python, TensorFlow and script: with a GPU under build/horovod, since
# it then knows where build/nccl is; without one in the user's cache, for all checkouts. Never fails.
#
#   tools/build_horovod.sh cpu|gpu
kind=$1
python=$PWD/.venv/bin/python
log=build/horovod/log
PATH=$PWD/.venv/bin:$PATH  # The cmake of .venv: Horovod needs one below 4.
export PATH

present() { "$python" -c 'import horovod.tensorflow' > /dev/null 2>&1; }

build() {  # $1: where the wheel goes; the rest: more settings.
  mkdir -p "$1"
  kept=$1
  made=build/horovod/made
  rm -rf $made
  shift
  echo "building Horovod 0.28.1 ($*)" >&2
  env HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1 "$@" \
    "$python" -m pip wheel -v --no-deps --no-build-isolation --no-cache-dir -w $made horovod==0.28.1 > $log 2>&1 < /dev/null || return
  # Whole or not at all: another checkout may look for it now.
  for wheel in $made/horovod-*.whl; do
    cp "$wheel" "$kept/new.$$" && mv -f "$kept/new.$$" "$kept/${wheel##*/}" || return
  done
}

# NVIDIA's wheel has libnccl.so.2; Horovod looks for libnccl.so.
nccl_home() {
  nccl=$("$python" -c 'import nvidia.nccl as n; print(list(n.__path__)[0])' 2> /dev/null) || return
  mkdir -p build/nccl/lib
  ln -sfn "$nccl/include" build/nccl/include
  ln -sf "$nccl/lib/libnccl.so.2" build/nccl/lib/libnccl.so
  ln -sf "$nccl/lib/libnccl.so.2" build/nccl/lib/libnccl.so.2
  echo "$PWD/build/nccl"
}

install() {
  ls "$wheels"/horovod-*.whl > /dev/null 2>&1 || return
  "$python" -m pip install --disable-pip-version-check "$wheels"/horovod-*.whl >> $log 2>&1
  present
}

mkdir -p build/horovod
versions=$("$python" -c 'import sys; from importlib.metadata import version
try: tf = version("tensorflow-cpu")
except Exception: tf = version("tensorflow")
print(f"py{sys.version_info[0]}{sys.version_info[1]}-tf{tf}")')
if ! present; then
  wheels=build/horovod/$versions-$kind
  if [ "$kind" = cpu ]; then
    shared=${XDG_CACHE_HOME:-$HOME/.cache}/tf_booster/horovod/$versions-$(cat "$0" tools/requirements*.txt | cksum | tr ' ' -)-$(uname -m)-$(g++ -dumpfullversion)
    mkdir -p "$shared" 2> /dev/null && [ -w "$shared" ] && wheels=$shared
  fi
  # A wheel from elsewhere may not work here; then it is built anew.
  install || {
    rm -f "$wheels"/horovod-*.whl
    "$python" -m pip uninstall -q -y horovod > /dev/null 2>&1
    if [ "$kind" = gpu ]; then
      build "$wheels" HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_NCCL_HOME="$(nccl_home)" ||
        { echo "Horovod did not build with NCCL; trying Gloo alone" >&2; cp $log $log.nccl; build "$wheels"; }
    else
      build "$wheels" HOROVOD_WITHOUT_GPU=1
    fi
    install
  }
fi
if present; then
  echo "Horovod 0.28.1 is installed."
else
  reason=$(grep -iE 'error|could not find' $log | head -n 1 | cut -c 1-200)
  echo "Horovod did not build (${reason:-see $log}); one process works. To try again: rm .venv/tf_booster.stamp; make build"
fi
