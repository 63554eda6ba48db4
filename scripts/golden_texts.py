# ruff: noqa: RUF001 - texts of many scripts are the point
"""The texts of the golden files: each on a place where tokenizers differ, or once did."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TEXTS: dict[str, str] = {
    "empty": "",
    "hello": "Hello world",
    "one-blank": " ",
    "one-letter": "a",
    "prose-english": "It was the best of times, it was the worst of times; we'd all gone direct to"
    " Heaven, they'd say, or the other way -- didn't you hear? (p. 1)",
    "prose-german": "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich; Ärger.",
    "prose-french": "L'œuvre d'été où naît l'âme : « Ça alors ! » s'écria-t-il à Noël, déçu.",
    "prose-spanish": "¿Qué tal, señor? ¡El pingüino comió jalapeños en la montaña a las 7!",
    "prose-polish": "Zażółć gęślą jaźń, Łódź; chrząszcz brzmi w trzcinie w Szczebrzeszynie.",
    "prose-vietnamese": "Tiếng Việt có nhiều dấu: ngữ, đường, ưỡn, ặ, ẫ, Nguyễn Thị Ánh.",
    "prose-turkish": "İstanbul'da ılık bir gün: IĞDIR, Iğdır, iyi, İYİ, şöför, çağ.",
    "prose-russian": "Съешь ещё этих мягких французских булок, да выпей чаю. Ёжик! Сказал: «да».",
    "prose-ukrainian": "Жебракують філософи при ґанку церкви в Гадячі, ще й шатро їхнє п'яне.",
    "prose-greek": "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία. Ο Οδυσσέας, ΣΊΣΥΦΟΣ, σίσυφος.",
    "prose-hebrew": "דג סקרן שט לו בים זך. שָׁלוֹם עֲלֵיכֶם, מה נשמע?",
    "prose-arabic": "صِف خَلقَ خَودِ كَمِثلِ الشَمسِ. اللغة العربية ١٢٣، لا إله؛ ﷲ ﻻ",
    "prose-persian": "می‌خواهم فارسی بنویسم؛ کتاب‌ها ۱۲۳ گچ پژ.",
    "prose-hindi": "ऋषियों को सताने वाले दुष्ट राक्षसों का राजा। क्षत्रिय, श्री, हिन्दी १२३ क़ ड़",
    "prose-marathi": "मराठी भाषेत र्‍य आणि ॲप ही अक्षरे आहेत.",
    "prose-telugu": "తెలుగు భాష; క్ష, శ్రీ, రాష్ట్రం, జ్ఞానం ౧౨౩.",
    "prose-tamil": "தமிழ் மொழி: க்ஷ ஸ்ரீ கொக்கு ௧௨௩",
    "prose-bengali": "বাংলা ভাষা: ক্ষ, জ্ঞ, ড়, ৎ, ১২৩",
    "prose-thai": "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน น้ำ ก็ ๑๒๓",
    "prose-burmese-khmer-lao": "မြန်မာဘာသာ ភាសាខ្មែរ ພາສາລາວ",
    "prose-chinese": "敏捷的棕毛狐狸从懒狗身上跃过。2024年，我们在北京见面！繁體中文：臺灣、龜。",
    "prose-japanese": "いろはにほへと ちりぬるを。カタカナ、ｶﾀｶﾅ、漢字々〆ヶ、が「が」ー〜",
    "prose-korean": "키스의 고유조건은 입술끼리 만나야 한다. 각 각 ㄱㄴㄷ 훈민정음",
    "prose-georgian-armenian-amharic": "ქართული ენა ᲥᲐᲠᲗᲣᲚᲘ Հայերեն և լեզու አማርኛ ቋንቋ፡",
    "prose-tibetan-mongolian": "བོད་སྐད། ཨོཾ་ ᠮᠣᠩᠭᠣᠯ ᠪᠢᠴᠢᠭ\u180eᠡ",
    "mixed-scripts": "Mixed混合текстผสมहिन्दी123عربيTEXT한글w1th2",
    "code-python": "def quicksort(xs: list[int]) -> list[int]:\n    if len(xs) <= 1:\n"
    "        return xs\n    pivot, *rest = xs  # first\n\n    return [*quicksort([x for x in rest"
    " if x < pivot]), pivot]\n",
    "code-c": "#include <stdio.h>\nint main(void) {\n\tfor (int i = 0; i != 10; ++i) {\n"
    '\t\tprintf("%d\\n", i << 2 | 0xFFu);\n\t}\n\treturn 0; /* done */\n}\n',
    "code-javascript": "const f = async ({a, ...rest}) => a?.b ?? `${rest['x']}-${a}`; // ===!==\n",
    "code-rust": "impl<'a, T: Clone> Foo<'a, T> { fn get(&'a self) -> Option<&'a T> { None } }",
    "code-sql-html": '<a href="/x?y=1&amp;z">SELECT * FROM "t" WHERE a<>b;</a><!-- -->',
    "code-latex": r"\begin{align*} \frac{\partial f}{\partial x_i} &= \sum_{k=0}^{\infty} a_k\\",
    "code-diff": "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-old\n+new\n \n",
    "json": '{"id": 12345, "ok": true, "items": [1.5, -2e10, null], "t": "a\\u00e9\\n", "n": {}}',
    "json-pretty": '{\n  "a": [\n    1,\n    2\n  ],\n  "b": {\n    "c": ""\n  }\n}\n',
    "yaml-csv": 'key: value\n- item\n  nested: \'x\'\n---\na,b;c\td\n1,,"q""q"\n',
    "markdown": "# Title\n\n* **bold** _it_ `code`\n1. [x](http://a.b)\n\n| a | b |\n|---|--:|\n",
    "identifiers": "camelCase PascalCase snake_case SCREAMING_CASE kebab-case HTTPServer2Error"
    " __init__ a.b.c x1y2z3 iPhone15ProMax $jq @decorator #tag getHTTPResponseCode",
    "addresses": "https://example.org:8080/p/a/t/h?q=1&r=%20%C3%A9#frag <user+tag@example.org>"
    " 192.168.0.1 2001:db8::1 C:\\Users\\x ~/.config /etc/passwd",
    "hashes": "d41d8cd98f00b204e9800998ecf8427e 550e8400-e29b-41d4-a716-446655440000 SGVsbG8=",
    "digits": "0 1 12 123 1234 12345 123456 1234567 1234567890123456789012345678901234567890",
    "numbers": "3.14159 1,000,000.00 -273.15 +49 (0)30 1e-9 0xDEADBEEF 0b1010 1_000 50% $9.99 10²",
    "digits-other": "٠١٢٣٤ ۱۲۳ १२३ ๑๒๓ 𝟏𝟐𝟑 ① ⅷ Ⅷ ½ ¾ ² ₃ 〇一二三 １２３",
    "dates": "2024-02-29T23:59:60Z 12/31/1999 3:45p.m. '99 1st 2nd 3rd 21st",
    "contractions": "I'm you're he's she'd we'll they've don't can't 'tis O'Brien rock'n'roll"
    " I'M YOU'RE HE'S SHE'D WE'LL THEY'VE DON'T I’m don’t",
    "contraction-long-s": "it'\u017f 'ſ'S'\u017f x'ſ Wa\u017fſer ſtraſſe",
    "case-odd": "ǅ ǈ ß ẞ ŉ ǰ ΐ İ ı K Å ﬀ ﬁ ﬃ Ŀ ÿ Ÿ ᾳ ᾼ Σίς ꭰ Ꭰ",
    "emoji": "🎉 😀😃😄 🤖🚀 ☃ ❤ ❤️ ✈︎ ©️ 🧪🧬 🫠",
    "emoji-zwj": "👩‍🔬 👨‍👩‍👧‍👦 🏳️‍🌈 🧑🏽‍🚀 👁️‍🗨️ 🐈‍⬛",
    "emoji-skin-flags-keycaps": "👍🏻👍🏼👍🏽👍🏾👍🏿 🇩🇪🇫🇷🇯🇵🇩 1️⃣#️⃣*️⃣ 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "emoji-zwj-broken": "👩‍ ‍🔬 👨‍👩‍ 🏽 ️ x\u200dy \u200d",
    "combining-marks": "Cafe\u0301 nai\u0308ve A\u030a \u1e69 s\u0323\u0307 q\u0307\u0323"
    " u\u0308\u0304 e\u0301\u0301 \u0301x n\u0303 \u212b",
    "combining-marks-stacked": "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033da\u034f\u0319\u0325"
    "l\u0334\u0355\u0332g\u0321o\u0489 a" + "\u0300" * 40,
    "combining-hangul-jamo": "\u1112\u1161\u11ab\u1100\u116e\u11a8 \uac00\u11a8 \u1100\uac00",
    "compatibility-forms": "Ａ１！ ﾊﾟ ㎞ ㍻ ℃ ™ ℡ ﷺ ĳ ŀ ﬄ ⁿ ㈱ ﹣ ︰ … ‥ 〝",
    "punctuation": "!?.,;:-–—…·•†‡§¶ «»‹›„“”‚‘’ ()[]{}<>/\\|~^`´¨ ¡¿ 、。「」『』 ؟،؛",
    "punctuation-runs": "...!!!???---___***///\\\\\\>>><<<===!=== ?!?! ;-( <3 (^_^) ¯\\_(ツ)_/¯",
    "symbols": "€£¥₹₿ ±×÷≠≤≥∞√∑∫∂ ←↑→↓⇒⇔ ▲►▼◄ ░▒▓█ ♠♣♥♦ ♩♪ ☑☒ ⠓⠑ 𝄞 ℵ ∀x∈ℝ",
    "math-alphabets": "𝓐𝓑𝓒 𝔘𝔫𝔦 𝕏𝕐 𝖠𝖡 𝚊𝚋 𝛼𝛽 𝟘𝟙",
    "control-characters": "".join(map(chr, range(1, 32)))
    + "\x7f"
    + "".join(map(chr, range(128, 160))),
    "nul": "a\0b \0\0 \0",
    "nul-alone": "\0",
    "escape-sequences": "\x1b[0m\x1b[1;31mred\x1b[0m\x07\x08",
    "crlf": "one\r\ntwo\r\n\r\nthree\rfour\n\rfive\r\n",
    "tabs": "\ta\t\tb \t c\t \td\t\n\te",
    "blanks": "a  b   c    d     e      f  ",
    "blanks-around": "  leading and trailing   ",
    "blanks-and-line-feeds": "x \n  \n   \n\n y\n \n z  \n",
    "indentation": "\n    four\n        eight\n\t\ttwo tabs\n            twelve\n  two",
    "blanks-of-unicode": "a\u00a0b\u1680c\u2000d\u2003e\u2009f\u200ag\u202fh\u205fi\u3000j",
    "blank-like": "a\u180eb\u200bc\u2060d\ufefee\u00adf\u034fg\u061ch\u115fi\u3164j\uffa0k",
    "nbsp": "10\u00a0km \u00a0\u00a0x \u00a0 y\u00a0",
    "line-separators": "a\u2028b\u2029c\x85d\x0be\x0cf \u2028 \u2029\u2028g",
    "directions": "\u200eabc\u200f \u202aאבג\u202c \u2066x\u2069 \u202eevil\u202c",
    "bom": "\ufeffstart\ufeffmiddle \ufeff \ufeff",
    "private-use": "\ue000\uf8ff \U000f0000\U000ffffd\U00100000\U0010fffd x\ue001y",
    "unassigned": "\u0378\u0530 \u2fe0 \U0001fbff \U000e0080 \U0003ffff \U00050000x",
    "noncharacters": "\ufffe\uffff \ufdd0\ufdef \U0001fffe\U0010ffff",
    "replacement-character": "\ufffd a\ufffdb \ufffd\ufffd\ufffd",
    "astral": "𐍈𐎠 𠀀𪛖 𒀀𓀀 𝕊𝕥 𞤀𞤢 𐐀𐐨 \U000e0001\U000e0041\U000e007f",
    "variation-selectors": "葛\U000e0100 葛\ufe00 ☺\ufe0e ☺\ufe0f a\ufe0f",
    "tokenizer-alphabets": "▁ ▁▁a ▁the Ġ Ġthe Ċ ĉ </w> the</w> ##ing ##s <0x41> <0xE2><0x96>",
    "byte-fallback": "𓂀 ੴ ꧁ ⸘ ⌬ ▁𐤀",
    "run-of-a-letter": "a" * 300,
    "run-of-a-letter-long": "ab" * 400,
    "run-of-equals": "=" * 200 + "-" * 70 + "#" * 33,
    "run-of-blanks": "x" + " " * 150 + "y" + " " * 151,
    "run-of-line-feeds": "x" + "\n" * 120 + "y\n\n" + "\r\n" * 30,
    "run-of-digits": "9" * 100 + " " + "0123456789" * 12,
    "run-of-emoji": "😀" * 60,
    "run-of-cjk": "一" * 80 + "的" * 40,
    "run-of-accents": "é" * 80 + "e\u0301" * 40,
    "word-of-100-and-101": "y" * 100 + " " + "x" * 101 + " " + "z" * 99,
    "long-words": "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
    " pneumonoultramicroscopicsilicovolcanoconiosis floccinaucinihilipilification",
    "rare-words": "SolidGoldMagikarp petertodd cloneembedreportprint rawdownload Skydragon",
    "repeated-word": "the " * 40 + "The THE tHe",
    "spellings-of-all-families": "<|endoftext|> <s> </s> <unk> <pad> [CLS] [SEP] [MASK]"
    " [UNK] [PAD] [INST] <|im_start|> <|startoftext|> <think> <extra_id_0> <|fim_prefix|> <bos>",
    "spellings-cut": "<|endoftext| >|endoftext|> <|endoftext <|end<|endoftext|>oftext|> [CLS"
    " [[SEP]] <s <<s>> </s <\\/s> < s > [ CLS ] <|ENDOFTEXT|> [cls] <S> ＜s＞ <|endoftext\u200b|>",
}

_FEW = 8
"""An artifact with more control spellings than this has them strung together, in a few texts."""

_STRUNG = 128


def spelling_texts(controls: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Texts, by their name, with every control spelling alone, between letters, doubled, ..."""
    for spelling in controls[:_FEW]:
        yield f"control {spelling} alone", spelling
        yield f"control {spelling} between letters", f"a{spelling}b"
        yield f"control {spelling} doubled", spelling * 2
        yield f"control {spelling} with blanks around", f"x  {spelling}  y {spelling} "
        yield f"control {spelling} in lines", f"\n{spelling}\n\n{spelling}\r\n"
        yield f"control {spelling} beside marks", f"é\u0301{spelling}\u0301ไทย{spelling}一"
        yield f"control {spelling} cut", f"{spelling[:-1]} {spelling[1:]} {spelling[:-1]}{spelling}"
    for number, strung in enumerate(_strung(controls[_FEW:])):
        yield f"controls {number} in a row", "".join(strung)
        yield f"controls {number} between letters", "a".join(["", *strung, ""])
        yield f"controls {number} with blanks around", " ".join(["", *strung, ""])
    if len(controls) > _FEW:
        doubled = [spelling * 2 for spelling in controls[_FEW :: len(controls) // 40]]
        yield "controls doubled", "".join(doubled)
    else:
        for first, second in itertools.permutations(controls, 2):
            yield f"control {first} then {second}", f"{first}{second} {first} {second}"


def _strung(spellings: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(spellings), _STRUNG):
        yield spellings[start : start + _STRUNG]
