"""The embedding pipeline while a program runs: docs/design/embedding_pipeline.md. The split itself is a pass."""
