"""The optimizers whose fused ops are compared with TensorFlow's, and the Variables that both update."""

import numpy as np
import tensorflow as tf

# Optimizer -> slots with their first values, hyperparameters in the order of the ops' inputs, flags.
OPTIMIZERS = {
    "GradientDescent": ({}, {"lr": 0.3}, [{}]),
    "ProximalGradientDescent": ({}, {"lr": 0.3, "l1": 0.01, "l2": 0.02}, [{}]),
    "Momentum": ({"accum": 0.0}, {"lr": 0.3, "momentum": 0.9}, [{"use_nesterov": False}, {"use_nesterov": True}]),
    "KerasMomentum": ({"accum": 0.0}, {"lr": 0.3, "momentum": 0.9}, [{"use_nesterov": False}, {"use_nesterov": True}]),
    "Adagrad": ({"accum": 0.1}, {"lr": 0.3}, [{"update_slots": True}, {"update_slots": False}]),
    "AdagradV2": ({"accum": 0.1}, {"lr": 0.3, "epsilon": 1e-3}, [{"update_slots": True}, {"update_slots": False}]),
    "ProximalAdagrad": ({"accum": 0.1}, {"lr": 0.3, "l1": 0.01, "l2": 0.02}, [{}]),
    "Adadelta": ({"accum": 0.0, "accum_update": 0.0}, {"lr": 0.3, "rho": 0.9, "epsilon": 1e-3}, [{}]),
    "Adam": (
        {"m": 0.0, "v": 0.0},
        {"beta1_power": 0.81, "beta2_power": 0.998, "lr": 0.3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-3},
        [{"use_nesterov": False}, {"use_nesterov": True}],
    ),
    "AdamWithAmsgrad": (
        {"m": 0.0, "v": 0.0, "vhat": 0.0},
        {"beta1_power": 0.81, "beta2_power": 0.998, "lr": 0.3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-3},
        [{}],
    ),
    "AdaMax": (
        {"m": 0.0, "v": 0.0},
        {"beta1_power": 0.81, "lr": 0.3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-3},
        [{}],
    ),
    "Ftrl": (
        {"accum": 0.1, "linear": 0.0},
        {"lr": 0.3, "l1": 0.01, "l2": 0.02, "lr_power": -0.5},
        [{"multiply_linear_by_lr": False}, {"multiply_linear_by_lr": True}],
    ),
    "FtrlV2": (
        {"accum": 0.1, "linear": 0.0},
        {"lr": 0.3, "l1": 0.01, "l2": 0.02, "l2_shrinkage": 0.03, "lr_power": -0.5},
        [{"multiply_linear_by_lr": False}, {"multiply_linear_by_lr": True}],
    ),
    "RMSProp": ({"ms": 1.0, "mom": 0.0}, {"lr": 0.3, "rho": 0.9, "momentum": 0.5, "epsilon": 1e-3}, [{}]),
    "CenteredRMSProp": (
        {"mg": 0.0, "ms": 1.0, "mom": 0.0},
        {"lr": 0.3, "rho": 0.9, "momentum": 0.5, "epsilon": 1e-3},
        [{}],
    ),
}
# No optimizer, but an op like theirs, which TensorFlow has not.
AVERAGE = "MovingAverage"
OPTIMIZERS[AVERAGE] = ({}, {"rate": 0.1}, [{}])

# Those with a sparse op of TensorFlow's to compare with.
SPARSE = (
    "Momentum",
    "KerasMomentum",
    "Adagrad",
    "AdagradV2",
    "Adadelta",
    "Ftrl",
    "FtrlV2",
    "RMSProp",
    "CenteredRMSProp",
)


def cases_of(names):
    """Pairs of a name and a set of flags, and what pytest calls each."""
    cases = [(name, flags) for name in names for flags in OPTIMIZERS[name][2]]
    return cases, [name + "".join(f"-{v}" for v in flags.values()) for name, flags in cases]


class BareVariable:
    """A resource Variable of four operations; those of tf.Variable took an eighth of the time of tests that make hundreds."""

    def __init__(self, first, dtype):
        start = tf.constant(first, dtype)
        self.handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=start.shape, shared_name=start.op.name)
        self.initializer = tf.raw_ops.AssignVariableOp(resource=self.handle, value=start)
        self.value = tf.raw_ops.ReadVariableOp(resource=self.handle, dtype=dtype)


def variables(values, slots, dtype):
    """{"var": one with this value, slot: one with its first value} for each of `values`."""
    first = [{"var": value, **{key: np.full(value.shape, start) for key, start in slots.items()}} for value in values]
    return [{key: BareVariable(value, dtype) for key, value in entry.items()} for entry in first]


def initializers_of(entries):
    return [variable.initializer for entry in entries for variable in entry.values()]


def values_of(entries):
    return [{key: variable.value for key, variable in entry.items()} for entry in entries]
