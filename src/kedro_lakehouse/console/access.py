"""Who is let in: whoever shows the token that ``kedro lakehouse console`` printed."""

from __future__ import annotations

import hmac
import os
from typing import Final

import streamlit as st

from kedro_lakehouse.private import CONSOLE_TOKEN

_PARAMETER: Final = "token"
_ADMITTED: Final = "admitted"
# Once: what this process starts does not inherit it. Without one nobody is let in.
_expected: Final = os.environ.pop(CONSOLE_TOKEN, "")


def is_admitted() -> bool:
    """Whether this visitor has shown the token, now or before; the address does not hold it any longer."""
    shown = st.query_params.get(_PARAMETER)
    if shown is not None and _is_right(shown):
        st.session_state[_ADMITTED] = True
        del st.query_params[_PARAMETER]
    return bool(st.session_state.get(_ADMITTED))


def ask_for_token() -> None:
    """The page of those who have not shown it."""
    st.title("kedro-lakehouse")
    st.text("Open the address that `kedro lakehouse console` printed, or enter its token.")
    shown = st.text_input("Token", type="password", autocomplete="off")
    if shown and _is_right(shown):
        st.session_state[_ADMITTED] = True
        st.rerun()
    if shown or _PARAMETER in st.query_params:
        st.error("This is not the token of the console that runs now.")


def _is_right(shown: str) -> bool:
    # In constant time: how long a refusal takes must not tell how much of it was right.
    return bool(_expected) and hmac.compare_digest(shown.encode(), _expected.encode())
