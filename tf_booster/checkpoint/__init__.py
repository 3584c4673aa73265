"""Hash tables in TensorFlow's checkpoints: saving, restoring, warm starts."""
