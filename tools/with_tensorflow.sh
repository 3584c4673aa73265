#!/bin/sh
# tools/with_tensorflow.sh 2.12.1 [pytest arguments]: builds a clone of HEAD against that TensorFlow and runs its tests, in
# build/tensorflow-2.12.1. `.ci/run` has one TensorFlow; this is for the others that setup.py admits, by hand. Without
# Horovod, and so without tests of several ranks, and without tests of the repository itself and of the examples.
set -eu
cd "$(dirname "$0")/.."
version=$1
shift
place=$PWD/build/tensorflow-$version
python=$place/.venv/bin/python
if [ ! -e "$place" ]; then
  git clone -q . "$place"
  ${BASE_PYTHON:-python3.11} -m venv "$place/.venv"
fi
git -C "$place" pull -q --ff-only
# TensorFlow brings its own numpy and protobuf; what else the tests need has to get along with those.
sed -E '/^(numpy|protobuf|matplotlib|cmake|ruff|clang-format)==/d' tools/requirements.txt > "$place/build-requirements.txt"
"$python" -m pip install -q "tensorflow-cpu==$version" -r "$place/build-requirements.txt" matplotlib
cd "$place"
make lib PYTHON="$python"
PYTHONPATH=$place "$python" -m pytest tests -q -n "$(nproc)" --dist loadscope --ignore tests/parallel --ignore tests/repo_test.py \
  --ignore tests/examples --ignore tests/passes/table_exchange_pass_test.py --ignore tests/pipeline/pipeline_over_ranks_test.py -p no:cacheprovider "$@"
