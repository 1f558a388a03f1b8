"""Matrix products with one thread: those that are worth more bring threads of their own."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


def one_thread() -> AbstractContextManager[Any]:
    """Hold the threads of OpenBLAS and its like off while the block runs.

    They wait for each other by spinning: beside Spark, or on busy processors, they cost several times what
    they gain.
    """
    limits: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limits


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through the libraries of the process: a millisecond or two
