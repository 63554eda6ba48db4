"""SentencePiece models with user-defined pieces, of which the lock calls some control spellings.

The embedded models have none. The library always reads such pieces out of text, so what it
should give where one is ordinary text is asked of a model in which it has another name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor
from sentencepiece import sentencepiece_model_pb2 as model_proto

from service.formats.sentencepiece import SentencePieceOptions, build
from tests.fuzzing import property_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

UNIGRAM, BPE = 1, 2
NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
CONTROLS = {"<s>": 1, "</s>": 2}
MARKERS = ["<x>", "[INST]", "<sep>", "<x>b"]
PIECES = ["\u2581", *"abcxs<>[]/A\u00e9", "\u2581a", "ab", "\u2581ab", "bc"]


def model(kind: int, markers: Iterable[str], **normalizer: bool) -> Any:
    """A model of these pieces; log probabilities, the longer ones more likely."""
    made = model_proto.ModelProto()
    made.pieces.add(piece="<unk>", type=UNKNOWN)
    for piece in CONTROLS:
        made.pieces.add(piece=piece, type=CONTROL)
    for piece in markers:
        made.pieces.add(piece=piece, type=USER_DEFINED)
    for number, piece in enumerate(PIECES):
        made.pieces.add(piece=piece, type=NORMAL, score=-40.0 + 8 * len(piece) - number)
    made.trainer_spec.model_type = kind
    made.normalizer_spec.name = "identity"
    for name, value in normalizer.items():
        setattr(made.normalizer_spec, name, value)
    return made


def processor_without(made: Any, spellings: Iterable[str]) -> SentencePieceProcessor:
    """The library's, when `spellings` are no pieces."""
    hidden = model_proto.ModelProto()
    hidden.CopyFrom(made)
    unwanted = set(spellings)
    for number, piece in enumerate(hidden.pieces):
        if piece.piece in unwanted:
            piece.piece = f"\U000ff000{number}\U000ff001"
    return SentencePieceProcessor(model_proto=hidden.SerializeToString())


def split_at_controls(
    text: str, processor: SentencePieceProcessor, allowed: Iterable[str]
) -> list[int]:
    """What the library gives for each stretch, and the control pieces between them."""
    found = [spelling for spelling in CONTROLS if spelling in set(allowed)]
    if not found:
        plain: list[int] = processor.encode(text)
        return plain
    ids: list[int] = []
    for part in re.split(f"({'|'.join(map(re.escape, found))})", text):
        ids += [CONTROLS[part]] if part in found else processor.encode(part)
    return ids


TEXTS = st.lists(
    st.sampled_from([*MARKERS * 2, *CONTROLS, *PIECES, " ", "  ", "<x", "x>", "\n", "q"]),
    max_size=8,
).map("".join)


@property_settings(150)
@given(
    st.builds(
        model,
        st.sampled_from([UNIGRAM, BPE]),
        st.lists(st.sampled_from(MARKERS), unique=True).map(tuple),
        add_dummy_prefix=st.booleans(),
        remove_extra_whitespaces=st.booleans(),
    ),
    st.sets(st.sampled_from(MARKERS)),
    st.sets(st.sampled_from([*MARKERS, *CONTROLS])),
    st.lists(TEXTS, min_size=5, max_size=5),
)
def test_any_model_gives_the_librarys_ids(
    made: Any, chosen: set[str], wanted: set[str], texts: list[str]
) -> None:
    markers = [piece.piece for piece in made.pieces if piece.type == USER_DEFINED]
    special = [marker for marker in markers if marker in chosen]
    options = SentencePieceOptions(
        parse_special=special, ordinary_pieces=[m for m in markers if m not in chosen]
    )
    tokenizer = build({"model": made.SerializeToString()}, options)
    assert set(tokenizer.controls) == {*CONTROLS, *special}
    allowed = frozenset(wanted & set(tokenizer.controls))
    none, every = processor_without(made, special), processor_without(made, ())
    narrow = processor_without(made, set(special) - allowed)
    for text in texts:
        literal = tokenizer.encode(text)
        assert not set(tokenizer.controls.values()) & set(literal), ascii(text)
        assert literal == none.encode(text), ascii(text)
        recognised = split_at_controls(text, every, CONTROLS)
        assert tokenizer.encode_special(text) == recognised, ascii(text)
        spans = tokenizer.find_controls(text, None)
        assert tokenizer.encode_spans(text, spans) == recognised, ascii(text)
        spans = tokenizer.find_controls(text, allowed)
        expected = split_at_controls(text, narrow, allowed)
        assert tokenizer.encode_spans(text, spans) == expected, (ascii(text), sorted(allowed))
        assert tokenizer.decode_bytes(literal).decode() == every.decode(literal), ascii(text)
