#!/bin/bash
# Runs a command in which TensorFlow has a GPU where there is none: cc/ptx_card, which `make card` builds.
#
#   tools/with_ptx_card.sh python program.py
#
# docs/design/ptx_machine.md says what that is worth. Slow: 100 million instructions of the card's a second.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
card=${PTX_CARD:-$root/build/native/card}
[ -e "$card/libtf_booster_ops.so" ] || { echo "with_ptx_card: nothing in $card; run make card, where nvcc is" >&2; exit 2; }
export TF_PLUGGABLE_DEVICE_LIBRARY_PATH=$card/libptx_card.so PTX_CARD_KERNELS=$root/tests/gpu/tensorflow_kernels.txt
export TF_BOOSTER_LIBRARY=$card/libtf_booster_ops.so
exec "$@"
