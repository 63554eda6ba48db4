"""What is asked of a fast engine, by the names of fastokens, which is used as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Encoding(Protocol):
    """What became of a text."""

    @property
    def ids(self) -> list[int]:
        """Its ids."""
        ...

    def __len__(self) -> int:
        """How many there are."""
        ...


class Engine(Protocol):
    """Gives the ids of literal text."""

    def encode(self, text: str, /) -> Encoding:
        """The ids of a text."""
        ...

    def encode_batch_flat(self, texts: list[str], /) -> tuple[bytes, bytes]:
        """The ids of all texts, four bytes each, little-endian; and how many each text has."""
        ...

    def added_tokens(self) -> Sequence[Mapping[str, Any]]:
        """What it finds in a text before anything else, `content` and `id` of each."""
        ...
