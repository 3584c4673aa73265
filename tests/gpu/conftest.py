"""With $PTX_CARD, the folder of `make card`, TensorFlow gets the PTX machine for a GPU."""

import os

import tensorflow as tf
from tensorflow.python.framework import load_library

if os.environ.get("PTX_CARD"):
    os.environ["TF_BOOSTER_LIBRARY"] = os.path.join(os.environ["PTX_CARD"], "libtf_booster_ops.so")
    load_library.load_pluggable_device_library(os.path.join(os.environ["PTX_CARD"], "libptx_card.so"))
    assert tf.config.list_physical_devices("GPU")
