"""Random texts and ids on which tokenizers differ: hypothesis strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from service.core.utf8 import is_utf8

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from service.core.tokenizer import Tokenizer

_WORDS = """the The THE ing don't DON'T 'll 'LL 's 'S '\u017f we've O'Brien a b c x y z i I e
    hello world tokenization antidisestablishmentarianism HTTPServer2Error camelCase snake_case
    naïve Straße ẞ İstanbul ı ǅ ﬁ œuvre Ångström Zażółć привет Ёлка ΣΊΣΥΦΟΣ σς שָׁלוֹם العربية لا
    می‌خواهم हिन्दी क्षत्रिय తెలుగు క్ష தமிழ் বাংলা ภาษาไทย น้ำ မြန်မာ ខ្មែរ ລາວ བོད་སྐད ᠮᠣᠩᠭᠣᠯ 你好 世界 臺灣
    こんにちは カタカナ ｶﾀｶﾅ が 한국어 각 ქართული Հայերեն አማርኛ 𠀀 𐍈 𝕊 𞤀
    0 7 42 123 1234 1234567 3.14 1,000 ٣ १२ ½ Ⅷ ²
    _ - -- ... ?! () [] {} <> </ /> <| |> || // \\ == != => :: ; , .
    : ! ' " ` ’ “ ” « 。 、 ？ € % & # @
    🎉 😀 👩‍🔬 👨‍👩‍👧 🏳️‍🌈 👍🏽 🇩🇪 🇩 1️⃣ ☃ ❤️ 🫠 ▁ ▁the Ġ Ġthe Ċ </w> a</w> ##ing ## <0x41> <0xE2>
    def return {"a": [1,null]} https://example.org/?q=1 SolidGold""".split()  # noqa: SIM905 - read as prose

_BLANKS = [
    *(" ", "  ", "    ", "\n", "\n\n", "\r\n", "\r", "\t", "\t\t", " \n", "\n ", "\0", "\x85"),
    *(
        "\u00a0",
        "\u1680",
        "\u2003",
        "\u200a",
        "\u202f",
        "\u3000",
        "\u2028",
        "\u2029",
        "\x0b",
        "\x0c",
    ),
]

_ODD = [
    *(chr(point) for point in (*range(1, 9), *range(14, 32), *range(127, 160), 0xAD)),
    *("\u0301", "\u0327", "\u0308", "\u0345", "\u034f", "\u0489", "\u05b0", "\u064b", "\u093f"),
    *("\u094d", "\u0c3e", "\u0e31", "\u0e33", "\u1112", "\u1161", "\u11ab", "\u20e3", "\u302a"),
    *("\u017f", "\u212a", "\u212b", "\u0130", "\u0131", "\u1e9e", "\u180e", "\u115f", "\u3164"),
    *("\u200b", "\u200c", "\u200d", "\u200e", "\u200f", "\u202e", "\u2060", "\u2066", "\u061c"),
    *("\ufeff", "\ufe0e", "\ufe0f", "\ufff9", "\ufffc", "\ufffd", "\ufffe", "\uffff", "\ufdd0"),
    *("\ue000", "\uf8ff", "\u0378", "\u0530", "\u2fe0", "\U000e0041", "\U000e0100", "\U000f0000"),
    *("\U0001fbff", "\U0001f3fd", "\U00050000", "\U0010fffd", "\U0010ffff", "\U0001d165"),
    *("\uff21", "\uff11", "\u2460", "\u33a5", "\ufdfa", "\u0958", "\u2126", "\U0002f800"),
]

_RUNS = (2, 3, 9, 40, 120)
_LONGEST_RUN = 240
"""How often a fragment stands in a row, and how many characters that may make: runs are where
splitting and merging are hardest."""


def _of_spellings(spellings: Iterable[str]) -> list[str]:
    """Control spellings whole, doubled, cut, and with a stranger inside."""
    # Of the hundreds that some artifacts have, whose spellings differ by a number.
    some = sorted(spellings, key=lambda spelling: (len(spelling), spelling))
    some = [*some[:8], *some[8 :: max(1, len(some) // 32)]]
    fragments = []
    for spelling in some:
        half = len(spelling) // 2
        fragments += [
            *(spelling, spelling, spelling, spelling * 2, f" {spelling} "),
            *(spelling[:-1], spelling[1:], spelling[:half], spelling[half:]),
            *(f"{spelling[:half]}{spelling}{spelling[half:]}", spelling.swapcase()),
            f"{spelling[:half]}\u200b{spelling[half:]}",
        ]
    return fragments


def mixed_texts(spellings: Iterable[str], max_fragments: int = 12) -> st.SearchStrategy[str]:
    """Texts that string together words, blanks, odd characters and control spellings."""
    tables = [table for table in (_WORDS, _BLANKS, _ODD, _of_spellings(spellings)) if table]
    longest = max(map(len, tables))
    # One draw from one table, in which every kind has about the same weight, is the cheapest.
    once = [fragment for table in tables for fragment in table * (longest // len(table))]
    repeated = [
        fragment * times
        for fragment in once
        for times in _RUNS
        if len(fragment) * times <= _LONGEST_RUN
    ]
    fragments = st.one_of(
        st.sampled_from(once),
        st.sampled_from([*once, *repeated[:: len(_RUNS)]]),
        st.characters(codec="utf-8"),
    )
    return st.lists(fragments, max_size=max_fragments).map("".join)


def subsets(spellings: Iterable[str]) -> st.SearchStrategy[frozenset[str]]:
    """Values of `allowed_special`: some, none and all of the spellings."""
    known = sorted(spellings)
    return st.one_of(
        st.frozensets(st.sampled_from(known), max_size=4),
        st.frozensets(st.sampled_from(known[:8])).map(lambda left_out: frozenset(known) - left_out),
    )


def id_lists(tokenizer: Tokenizer, left_out: Container[int] = ()) -> st.SearchStrategy[list[int]]:
    """Lists of a tokenizer's ids, many of which are a part of a character or a control token."""
    vocabulary = tokenizer.vocabulary()
    every = [token_id for token_id in sorted(vocabulary) if token_id not in left_out]
    partial = [token_id for token_id in every if not is_utf8(vocabulary[token_id])]
    control = [token_id for token_id in tokenizer.controls.values() if token_id not in left_out]
    kinds = [st.sampled_from(ids) for ids in (every, partial, partial[:256], control) if ids]
    return st.lists(st.one_of(kinds), max_size=12)
