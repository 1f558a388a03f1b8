"""Where candidates come from: each index is an entry point of ``kedro_lakehouse.vector_indexes``."""
