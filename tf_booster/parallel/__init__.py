"""Several ranks: what one process among others does, over Horovod."""
