"""WordPiece: text into the token numbers that BERT models were trained on."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_MAX_WORD: Final = 100
_MARK: Final = "##"
# Blocks of Chinese characters, each of which is a word of its own.
_IDEOGRAPHS: Final = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class WordPiece:
    """Splits text into pieces of a vocabulary, the longest first.

    Source:
        BERT's uncased tokenizer: clean, lower-case, strip accents, split at blanks and punctuation, then
        greedy longest match.
    """

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        """Keep the number of each piece."""
        self._pieces = dict(vocabulary)
        self._unknown = self._pieces["[UNK]"]
        self._start, self._end = self._pieces["[CLS]"], self._pieces["[SEP]"]
        self._numbers = lru_cache(maxsize=50_000)(self._split)

    @classmethod
    def read(cls, path: Path) -> WordPiece:
        """Read a vocabulary of one piece a line."""
        lines = path.read_text(encoding="utf-8").split("\n")
        return cls({piece: number for number, piece in enumerate(lines) if piece})

    def encode(self, text: str, limit: int) -> list[int]:
        """The numbers of a text's tokens between those of start and end, at most ``limit`` in all."""
        numbers: list[int] = []
        for word in words(text):
            numbers.extend(self._numbers(word))
            if len(numbers) > limit - 2:
                break
        return [self._start, *numbers[: limit - 2], self._end]

    def _split(self, word: str) -> tuple[int, ...]:
        if len(word) > _MAX_WORD:
            return (self._unknown,)
        found, begin = [], 0
        while begin < len(word):
            for end in range(len(word), begin, -1):
                number = self._pieces.get((_MARK if begin else "") + word[begin:end])
                if number is not None:
                    found.append(number)
                    begin = end
                    break
            else:
                return (self._unknown,)
        return tuple(found)


def words(text: str) -> Iterator[str]:
    """Yield the words and punctuation marks of a text, lower-case and without accents."""
    normal = unicodedata.normalize("NFD", "".join(map(_clean, text))).lower()
    plain = "".join(c for c in normal if unicodedata.category(c) != "Mn")
    yield from "".join(f" {c} " if _is_punctuation(c) else c for c in plain).split()


@lru_cache(maxsize=10_000)
def _clean(char: str) -> str:
    """A character as the tokenizer sees it: nothing, a blank, or itself."""
    if char in "\t\n\r":
        return " "
    kind = unicodedata.category(char)
    if char == "\ufffd" or kind in ("Cc", "Cf", "Cn", "Co", "Cs"):
        return ""
    if kind == "Zs":
        return " "
    return f" {char} " if any(low <= ord(char) <= high for low, high in _IDEOGRAPHS) else char


@lru_cache(maxsize=10_000)
def _is_punctuation(char: str) -> bool:
    ascii_mark = char.isascii() and char.isprintable() and not char.isalnum() and char != " "
    return ascii_mark or unicodedata.category(char).startswith("P")
