"""The literal twin of a `tokenizers.Tokenizer`, and the spotter that finds its added tokens.

The library decides by flags on a shared object whether a special token's spelling is recognised,
and its flag covers only tokens marked `special: true`. Toggling it under threads gives wrong ids
in silence, so nothing is toggled: two tokenizers are built once from one definition.

The *reference* is the definition as it stands, without padding and truncation. In its *twin*
every control token is renamed, at its own id, to a long random string that no caller can know:
in the added vocabulary, and in the model, where a piece of that spelling could match, too. Text
given to the twin can't reach a control id. To recognise a spelling at one place, and nowhere
else, that place of the text is replaced by the random string and the whole text is encoded once:
stretches encoded apart would get other ids (a Metaspace puts a blank before each).

The *spotter* has the same normalizer and added tokens and an empty model: what it finds is what
the library would find, flags and normalization included.
"""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING

from service.core.alignment import MarkedText, Offset, RangeAlignment
from service.core.spelling import SpellingFinder
from service.core.tokenizer import ControlSpan
from service.formats import FormatError
from service.formats._common import stand_in
from service.formats._definition import definition_of
from service.formats._library import frame_of, load, pair_frame_of
from service.formats._words import is_word_by_word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tokenizers import Tokenizer as HuggingFaceTokenizer

    from service.core.alignment import Alignment
    from service.formats._definition import Definition

_SPOTTERS_KEPT = 64
"""How many spotters for `allowed_special` sets are kept; each costs up to a few ms to build."""

_OTHER = "\0"
"""The only piece of a spotter's model: all text that is no added token."""


class Twins:
    """A reference tokenizer, its literal twin, and the search for control spellings."""

    def __init__(self, definition: Definition, controls: Mapping[str, int]) -> None:
        """Build both tokenizers of a definition whose `controls` are spelling to id.

        Raises FormatError when the library refuses the definition or would change an id.
        """
        definition = dict(definition, truncation=None, padding=None)
        self.controls = controls
        self.reference = load(definition)
        self.word_by_word = is_word_by_word(definition, controls)
        self._check_declared_ids(definition)
        self.frame = frame_of(self.reference)
        self.pair_frame = pair_frame_of(self.reference)
        # Framing is done with these ids; what else a post-processor does is to trim offsets.
        self.reference.post_processor = None
        definition["post_processor"] = None
        self._stand_ins = {spelling: stand_in(spelling) for spelling in controls}
        self._twin = load(_renamed(definition, self._stand_ins))
        for spelling, name in self._stand_ins.items():
            if self._twin.token_to_id(name) != controls[spelling]:
                raise FormatError(f"the id of {spelling!r} can't be kept apart from its spelling")
        self._spotters = functools.lru_cache(maxsize=_SPOTTERS_KEPT)(
            functools.partial(_Spotter, definition, frozenset(controls))
        )

    def _check_declared_ids(self, definition: Definition) -> None:
        for token in definition["added_tokens"]:
            found = self.reference.token_to_id(token["content"])
            if found != token["id"]:
                raise FormatError(
                    f"added token {token['content']!r} declares id {token['id']}, "
                    f"the library would give it {found}",
                    role="tokenizer",
                )

    def encode(self, text: str) -> list[int]:
        """Content ids with no control spelling recognised."""
        return _ids(self._twin, text)

    def encode_each(self, texts: list[str]) -> list[list[int]]:
        """The same of each text, in one call of the library."""
        return _ids_of_each(self._twin, texts)

    def count(self, text: str) -> int:
        """How many ids `encode` gives."""
        return len(self.encode(text))

    def encode_special(self, text: str) -> list[int]:
        """Content ids as the library gives them."""
        return _ids(self.reference, text)

    def encode_spans(self, text: str, spans: Sequence[ControlSpan]) -> list[int]:
        """Content ids with the control spellings at `spans` recognised and no others."""
        return _ids(self._twin, MarkedText(text, spans, self._stand_ins.__getitem__).text)

    def literal_json(self) -> str:
        """The twin's definition, which gives the ids of `encode`."""
        described: str = self._twin.to_str()
        return described

    def align(self, text: str, spans: Sequence[ControlSpan]) -> Alignment:
        """The ids of `encode_spans` with the library's own offsets, mapped back to `text`."""
        marked = MarkedText(text, spans, self._stand_ins.__getitem__)
        (encoding,) = self._twin.encode_batch([marked.text], add_special_tokens=False)
        ranges = [marked.original(Offset(*pair)) for pair in encoding.offsets]
        return RangeAlignment(text, encoding.ids, ranges)

    def find_controls(self, text: str, allowed: frozenset[str] | None) -> list[ControlSpan]:
        """The control spellings that the library recognises when only `allowed` are known."""
        return self._spotters(allowed).find(text)


class _Spotter:
    """Finds control spellings as the library does, without its model."""

    def __init__(
        self, definition: Definition, controls: frozenset[str], allowed: frozenset[str] | None
    ) -> None:
        wanted = controls if allowed is None else controls & allowed
        added = [
            # Blanks that a token takes along (lstrip, rstrip) are no part of its spelling.
            dict(token, lstrip=False, rstrip=False, id=number)
            for number, token in enumerate(
                (
                    token
                    for token in definition["added_tokens"]
                    if token["content"] in wanted or token["content"] not in controls
                ),
                start=1,
            )
        ]
        self._spellings = {token["id"]: token["content"] for token in added}
        self._wanted = wanted
        model = {"type": "WordLevel", "vocab": {_OTHER: 0}, "unk_token": _OTHER}
        self._tokenizer = load(
            definition_of(model, added_tokens=added, normalizer=definition["normalizer"])
        )
        # A token that is looked for in normalized text may stand there although its spelling
        # does not stand in the text; for all others the cheap search comes first.
        matches_normalized = definition["normalizer"] is not None and any(
            token["normalized"] for token in added if token["content"] in wanted
        )
        self._finder = None if matches_normalized else SpellingFinder(wanted)

    def find(self, text: str) -> list[ControlSpan]:
        """The control spellings recognised in `text`."""
        if not self._wanted or (self._finder is not None and not self._finder.find(text)):
            return []
        (encoding,) = self._tokenizer.encode_batch([text], add_special_tokens=False)
        spans: list[ControlSpan] = []
        for token_id, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            spelling = self._spellings.get(token_id)
            if spelling in self._wanted:
                # A normalizer that prepends a blank makes it a part of what is looked for.
                inside = text.find(spelling, start, end)
                if inside >= 0:
                    start, end = inside, inside + len(spelling)  # noqa: PLW2901 - narrowed
                spans.append(ControlSpan(start, end, spelling))
        return spans


def special_added_tokens(controls: Mapping[str, int]) -> list[Definition]:
    """The `added_tokens` of a definition whose special tokens match exactly as they are spelt."""
    return [
        {
            "id": token_id,
            "content": spelling,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for spelling, token_id in sorted(controls.items(), key=lambda item: item[1])
    ]


def _ids(tokenizer: HuggingFaceTokenizer, text: str) -> list[int]:
    (ids,) = _ids_of_each(tokenizer, [text])
    return ids


def _ids_of_each(tokenizer: HuggingFaceTokenizer, texts: list[str]) -> list[list[int]]:
    # encode() holds the GIL for the whole call, 0.4 s a MB; the batch call releases it.
    encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return [encoding.ids for encoding in encodings]


def _renamed(definition: Definition, names: Mapping[str, str]) -> Definition:
    """The definition with each token of `names` under its new name, at its own id."""
    renamed = copy.deepcopy({key: value for key, value in definition.items() if key != "model"})
    for token in renamed["added_tokens"]:
        token["content"] = names.get(token["content"], token["content"])
    renamed["model"] = _renamed_model(definition["model"], names)
    return renamed


def _renamed_model(model: Definition, names: Mapping[str, str]) -> Definition:
    """The model with each piece of `names` under its new name and no merge that makes one."""
    model = dict(model)
    vocab = model["vocab"]
    if isinstance(vocab, list):  # Unigram: [piece, score] in the order of the ids
        model["vocab"] = [[names.get(piece, piece), score] for piece, score in vocab]
    else:
        model["vocab"] = {names.get(piece, piece): token_id for piece, token_id in vocab.items()}
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    if model.get("merges"):
        prefix = model.get("continuing_subword_prefix") or ""
        if prefix or _may_mention(model["merges"], names):
            model["merges"] = [
                merge for merge in model["merges"] if not _mentions(merge, prefix, names)
            ]
    return model


def _may_mention(merges: Sequence[str | list[str]], names: Mapping[str, str]) -> bool:
    """False when no merge takes or makes one of `names`: a tenth of the time of looking at each.

    What a merge takes and what it makes stand in the text of all merges without blanks.
    """
    lines = (merge if isinstance(merge, str) else "".join(merge) for merge in merges)
    text = "\n".join(lines).replace(" ", "")
    return any(name.replace(" ", "") in text for name in names)


def _mentions(merge: str | list[str], prefix: str, names: Mapping[str, str]) -> bool:
    left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
    return left in names or right in names or left + right.removeprefix(prefix) in names
