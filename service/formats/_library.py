"""What formats ask of the tokenizers library beside ids: loading, frames, decoding by parts."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import msgspec
import tokenizers
from tokenizers import AddedToken
from tokenizers import Tokenizer as HuggingFaceTokenizer
from tokenizers.models import BPE

from service.core.faults import is_fault
from service.core.tokenizer import Frame, PairFrame
from service.formats import FormatError
from service.formats._definition import COMPONENTS, Definition, definition_of

if TYPE_CHECKING:
    from collections.abc import Sequence


_BPE_OPTIONS = (
    "dropout",
    "unk_token",
    "continuing_subword_prefix",
    "end_of_word_suffix",
    "fuse_unk",
    "byte_fallback",
    "ignore_merges",
)


def load(definition: Definition) -> HuggingFaceTokenizer:
    """The library's tokenizer of a definition. Raises FormatError with the library's reason."""
    model = definition["model"]
    # Of a model without a type the library tries BPE first, and old files have none.
    if model.get("type", "BPE") == "BPE" and "merges" in model:
        try:
            return _load_bpe(definition)
        except BaseException as error:  # the library's reason is found below
            if not is_fault(error):
                raise
    try:
        return HuggingFaceTokenizer.from_buffer(msgspec.json.encode(definition))
    except Exception as error:  # noqa: BLE001 - the binding raises bare Exception
        library = f"tokenizers {tokenizers.__version__}"
        for part in COMPONENTS:
            if definition[part] is not None and not _is_known(part, definition[part]):
                kind = definition[part].get("type")
                raise FormatError(
                    f"{library} can't use the {part} of type {kind!r}: {error}", role="tokenizer"
                ) from None
        raise FormatError(f"{library} can't use it: {error}", role="tokenizer") from None


def _load_bpe(definition: Definition) -> HuggingFaceTokenizer:
    """The same from a BPE that is given as Python objects: half of the time of its JSON.

    Raises whatever the library raises, and ValueError for what only its reader of JSON takes.
    """
    model = definition["model"]
    merges = _pairs(model["merges"])
    options = {name: model[name] for name in _BPE_OPTIONS if model.get(name) is not None}
    bare = dict(definition, added_tokens=[], model={"type": "BPE", "vocab": {}, "merges": []})
    tokenizer = HuggingFaceTokenizer.from_buffer(msgspec.json.encode(bare))
    tokenizer.model = BPE(model["vocab"], merges, **options)
    # One after the other, as they stand: what the model does not have gets the next free id.
    tokenizer.add_tokens(
        [
            AddedToken(**{name: value for name, value in token.items() if name != "id"})
            for token in definition["added_tokens"]
        ]
    )
    return tokenizer


def _pairs(merges: Sequence[Any]) -> list[tuple[str, str]]:
    kinds = set(map(type, merges))
    if not (kinds <= {str} or kinds <= {list}):
        raise ValueError
    parts = (merge.split(" ") for merge in merges) if kinds == {str} else merges
    pairs = [(left, right) for left, right in parts]
    if any(left.startswith("#version") for left, _ in pairs):  # the reader passes over these
        raise ValueError
    return pairs


def _is_known(part: str, component: object) -> bool:
    """Whether the library takes a component; its message about a whole file names none."""
    model = {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}
    alone = definition_of(model, **{part: component})
    try:
        HuggingFaceTokenizer.from_buffer(msgspec.json.encode(alone))
    except Exception:  # noqa: BLE001 - the binding raises bare Exception
        return False
    return True


def frame_of(tokenizer: HuggingFaceTokenizer) -> Frame:
    """The ids that the post-processor puts around one text.

    Raises FormatError for a post-processor that does more than that, because a frame is all
    that `add_special_tokens` means here.
    """
    frame: Frame | None = None
    for probe in ("a", "b a", "0"):
        bare = tokenizer.encode_batch([probe], add_special_tokens=False)[0].ids
        framed = tokenizer.encode_batch([probe], add_special_tokens=True)[0]
        content = [place for place, mask in enumerate(framed.special_tokens_mask) if not mask]
        if not bare:
            continue
        first, last = (content[0], content[-1] + 1) if content else (0, 0)
        found = Frame(tuple(framed.ids[:first]), tuple(framed.ids[last:]))
        if framed.ids[first:last] != bare or (frame is not None and found != frame):
            raise FormatError("the post-processor does more than frame a text", role="tokenizer")
        frame = found
    return frame or Frame((), ())


def pair_frame_of(tokenizer: HuggingFaceTokenizer) -> PairFrame | None:
    """The ids around and between two texts; None where the post-processor puts none.

    Raises FormatError for a post-processor that does more than that.
    """
    (framed,) = tokenizer.encode_batch([("a", "b")], add_special_tokens=True)
    (bare,) = tokenizer.encode_batch([("a", "b")], add_special_tokens=False)
    if framed.ids == bare.ids:
        return None
    runs = [(sequence, len(list(run))) for sequence, run in itertools.groupby(framed.sequence_ids)]
    order = [sequence for sequence, _ in runs if sequence is not None]
    content = [
        token_id
        for token_id, sequence in zip(framed.ids, framed.sequence_ids, strict=True)
        if sequence is not None
    ]
    if order != [0, 1] or content != bare.ids:
        raise FormatError("the post-processor does more than frame a pair", role="tokenizer")
    parts: list[list[int]] = [[], [], []]
    seen = 0
    for token_id, sequence in zip(framed.ids, framed.sequence_ids, strict=True):
        if sequence is None:
            parts[seen].append(token_id)
        else:
            seen = sequence + 1
    return PairFrame(*(tuple(part) for part in parts))


def parts_by_pairs(tokenizer: HuggingFaceTokenizer, tokens: Sequence[str]) -> list[bytes]:
    """What each token adds to the decoded text, for decoders that look one token back at most."""
    decode = tokenizer.decoder.decode if tokenizer.decoder else " ".join
    parts: list[bytes] = []
    for place, token in enumerate(tokens):
        if place == 0:
            parts.append(decode([token]).encode())
        else:
            before = decode([tokens[place - 1]])
            parts.append(decode([tokens[place - 1], token])[len(before) :].encode())
    return parts
