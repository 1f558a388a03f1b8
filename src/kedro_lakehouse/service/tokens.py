"""Bearer tokens: whoever shows one is a role of grants.yml. Only their hashes are kept."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kedro_lakehouse.project import Project

_HASH: Final = re.compile(r"[0-9a-f]{64}")
_LONGEST: Final = 200
_FILE: Final = "credentials.yml"


def new_token() -> str:
    """A token that nobody can guess: 256 random bits."""
    return secrets.token_urlsafe(32)


def hash_of_token(token: str) -> str:
    """What the credentials keep of a token; a random one cannot be found from it."""
    return hashlib.sha256(token.encode()).hexdigest()


class Tokens:
    """The hashes of all tokens, each with its role."""

    def __init__(self, hashes: Mapping[str, str]) -> None:
        """Store the role of each hash."""
        self._hashes = dict(hashes)

    @classmethod
    def of(cls, project: Project) -> Tokens:
        """The tokens that the credentials of the service name.

        Raises:
            ConfigurationError: There are none, one is no hash, or a role is not declared.
        """
        entry = project.service.credentials
        held = project.credentials(entry)
        found: dict[str, str] = {}
        for role, given in held.items():
            project.grants.of(str(role))  # refuses a role that is not declared
            for one in _listed(given):
                if not isinstance(one, str) or not _HASH.fullmatch(one):
                    raise ConfigurationError(
                        file=_FILE,
                        key=f"{entry}.{role}",
                        problem="expected the SHA-256 of a token, as 64 hexadecimal digits.",
                        remedy=f"`kedro lakehouse serve --new-token {role}` prints a token and its hash.",
                    )
                found[one] = str(role)
        return cls(found)

    @property
    def roles(self) -> set[str]:
        """The roles that have a token."""
        return set(self._hashes.values())

    def role_of(self, header: str | None) -> str | None:
        """The role of the token in an Authorization header; None if there is none, or it is not known.

        It takes as long for a token that is nearly right as for another one.
        """
        kind, _, token = (header or "").partition(" ")
        if kind.lower() != "bearer" or not 0 < len(token) <= _LONGEST or not token.isascii():
            return None
        shown, found = hash_of_token(token), None
        for known, role in self._hashes.items():
            if hmac.compare_digest(shown, known):
                found = role
        return found


def _listed(given: object) -> Iterator[object]:
    """One hash, or several: while a token is changed, the old one and the new one hold."""
    if isinstance(given, list | tuple):
        yield from given
    else:
        yield given
