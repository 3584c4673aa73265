"""With $PTX_CARD, the folder of `make card`, TensorFlow gets the PTX machine for a GPU."""

import ctypes
import os

import tensorflow as tf
from tensorflow.python.framework import load_library

if os.environ.get("PTX_CARD"):
    os.environ["TF_BOOSTER_LIBRARY"] = os.path.join(os.environ["PTX_CARD"], "libtf_booster_ops.so")
    card = os.path.join(os.environ["PTX_CARD"], "libptx_card.so")
    load_library.load_pluggable_device_library(card)
    kernels = os.path.join(os.path.dirname(__file__), "data", "tensorflow_kernels.txt")
    assert ctypes.CDLL(card).ptx_card_register(kernels.encode()) > 0
    assert tf.config.list_physical_devices("GPU")
