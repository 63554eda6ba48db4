"""A minbpe model as a tokenizer.json, for engines that read no .model.

Both merge the pair whose merge was learnt first, wherever it stands, until there is none. In a
tokenizer.json a token is known by its bytes, so a model in which two merges spell the same bytes,
under two ids, is not put this way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from service.core.split_patterns import with_properties
from service.formats._byte_level import LETTER_OF_BYTE
from service.formats._definition import definition_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.formats._minbpe_model import Model


def literal_json(model: Model, bytes_of: Mapping[int, bytes]) -> str | None:
    """The tokenizer.json with the model's ids for literal text; None where there is none.

    `bytes_of`: of each id. Special tokens are not in it.
    """
    letters = {
        token_id: "".join(map(LETTER_OF_BYTE.__getitem__, token))
        for token_id, token in bytes_of.items()
        if token_id not in model.special_tokens.values()
    }
    vocab = {token: token_id for token_id, token in letters.items()}
    if len(vocab) != len(letters) or not model.pattern:
        return None
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    split = {
        "type": "Split",
        "pattern": {"Regex": with_properties(model.pattern)},
        "behavior": "Isolated",
        "invert": False,
    }
    definition = definition_of(
        {
            "type": "BPE",
            "vocab": vocab,
            "merges": [[letters[left], letters[right]] for left, right in model.merges],
        },
        pre_tokenizer={"type": "Sequence", "pretokenizers": [split, byte_level]},
        decoder=byte_level,
    )
    return msgspec.json.encode(definition).decode()
