"""Debezium change events: with and without their schema, whole or flattened."""

from kedro_lakehouse.decoders.debezium.decoder import DebeziumDecoder
from kedro_lakehouse.decoders.debezium.envelope import DebeziumLayout

__all__ = ["DebeziumDecoder", "DebeziumLayout"]
