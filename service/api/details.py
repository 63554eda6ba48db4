"""Details of encoded text on request: offsets, token bytes, the mask of special tokens."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from service.api.texts import Content, Encoded
    from service.core.alignment import Alignment, Offset, Unit
    from service.core.tokenizer import Tokenizer


def details(
    tokenizer: Tokenizer, encoded: Encoded, *, unit: Unit | None, token_bytes: bool, mask: bool
) -> dict[str, Any]:
    """The detail fields asked for, one value an id; offsets of template ids are None."""
    fields: dict[str, Any] = {}
    alignments = [tokenizer.align(content.text, content.spans()) for content in encoded.contents]
    if unit is not None:
        of_contents: list[list[Offset]] = [alignment.offsets(unit) for alignment in alignments]
        fields["offsets"] = list(_woven(encoded, of_contents, None))
    if token_bytes:
        fields["token_bytes"] = [
            base64.b64encode(tokenizer.token_bytes(token_id)).decode() for token_id in encoded.ids
        ]
    if mask:
        masks = [
            _mask(tokenizer, content, alignment)
            for content, alignment in zip(encoded.contents, alignments, strict=True)
        ]
        fields["special_tokens_mask"] = list(_woven(encoded, masks, 1))
    return fields


def _woven(
    encoded: Encoded, of_contents: Iterable[Iterable[object]], of_template: object
) -> Iterator[object]:
    """The contents' values with the template's around them, in the order of the ids."""
    yield from (of_template for _ in encoded.template[0])
    for values, after in zip(of_contents, encoded.template[1:], strict=True):
        yield from values
        yield from (of_template for _ in after)


def _mask(tokenizer: Tokenizer, content: Content, alignment: Alignment) -> list[int]:
    """1 for each control id that a recognised spelling gave.

    Only the unknown token's id can come from other text, too: it is one where its spelling
    stands.
    """
    control_ids = set(tokenizer.controls.values())
    mask = [int(token_id in control_ids) for token_id in content.ids]
    if tokenizer.unknown_id in control_ids and content.unknown_tokens:
        starts = {
            span.start
            for span in content.spans()
            if tokenizer.controls[span.spelling] == tokenizer.unknown_id
        }
        for index, token_id in enumerate(content.ids):
            if token_id == tokenizer.unknown_id:
                gap = alignment.gap_before(index)
                mask[index] = int(gap is not None and gap.end in starts)
    return mask
