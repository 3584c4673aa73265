"""From TFRecord files to parsed batches in one op, and what stands around it: the rewrite of pipelines, copies to the device."""
