#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes bleu.json: small corpora scored by sacreBLEU, which tests/text/bleu.cpp compares.

    python3 -m venv venv && venv/bin/pip install sacrebleu==2.6.0 && venv/bin/python tests/golden/generate_bleu.py

Each case is {"hypotheses": [...], "references": [...], "tokens": [[...], ...] of the hypotheses, and the parts of the
score}.
"""

import json
import pathlib

from sacrebleu.metrics import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

CASES = {
    "perfect": [
        ("The old man is fishing from a pier.", "The old man is fishing from a pier."),
        ("Two dogs, one black, run through snow!", "Two dogs, one black, run through snow!"),
    ],
    "ordinary": [
        ("A man is sitting in a chair with a red book.", "A man sits on a chair and reads a red book."),
        ("Two children play in front of the house .", "Two children are playing in front of the house."),
        ("the the the the the", "The cat is on the mat."),
    ],
    "too short": [("A man in a blue shirt", "A man in a blue shirt is standing on a ladder cleaning a window.")],
    "too long": [("A man in a blue shirt is is standing on on a ladder.", "A man is standing on a ladder.")],
    "punctuation": [
        ('He said: "no" (twice); then {left}... [why?]', 'He said: "no" (once); then left... [why?]'),
        ("a.b,c. d ,e ..,, f!g?h/i\\j~k|l^m_n`o@p#q$r%s*t+u=v<w>x", "a.b, c. d, e ... f!g?h/i\\j~k|l^m_n`o@p#q$r%s*t+u=v<w>x"),
    ],
    "decimals": [
        ("It costs 1,234.50 dollars, or 3.5 % of 7. Not .5 or 5,x", "It costs 1,234.50 dollars, or 3.50 % of 7. Not 0.5 or 5,x"),
        ("From 1990-95 to 2-3, A-4 and 4-A.", "From 1990-1995 to 2-3, A-4 and 4-A."),
    ],
    "entities": [
        ("Q&amp;A &quot;now&quot; 1 &lt; 2 &gt; 0 &amp;lt; &amp;quot; &nbsp; R&D", 'Q&A "now" 1 < 2 > 0 &lt; &quot; &nbsp; R&D'),
        ("one <skipped> two<skipped>three", "one two three"),
    ],
    "hyphens and quotes": [
        ("A well-known mother-in-law's dog - the dogs' -- ran 'fast'.", "A well-known mother-in-law's dog, the dogs' - ran 'fast'."),
        ("„Straße“ – sagt’s … ‚so‘", "„Straße“ – sagte’s … ‚so‘"),
    ],
    "unicode": [
        ("Größe 12. Äpfel,Öl übt。 日本語、です 😀.", "Größe 12. Äpfel, Öl übte。 日本語、です 😀."),
        ("no\u00a0break thin\u2009space wide\u3000space zero\u200bwidth\ufeff x\u2028y\u0085z\x1cw", "no break thin space wide space zero width x y z w"),
    ],
    "lines and spaces": [
        ("  a line-\nbreak and\nanother one  \t", "a linebreak and another one"),
        ("ends with a hyphen-\n", "ends with a hyphen-"),
        ("ends with a hyphen-\n\u3000", "ends with a hyphen-"),
        ("tab\tseparated \r\n", "tab separated"),
    ],
    "an empty hypothesis": [("", "There is nothing here."), ("This is here.", "This is here.")],
    "an empty reference": [("There is something here.", ""), ("This is all here.", "This is all here.")],
    "all empty hypotheses": [("", "There is nothing here."), (" ", "And here.")],
    "all empty": [("", "")],
    "no match": [("completely different words here now", "The cat sits on a mat")],
    "no 4-gram match": [("The cat there sits here on that mat", "The cat sits on a mat there")],
    "no 2-gram match": [("mat a on sits cat The", "The cat sits on a mat")],
    "shorter than 4": [("one two three", "one two three")],
    "case counts": [("THE CAT sits on a mat", "The cat sits on a mat")],
}


def main():
    tokenizer = Tokenizer13a()
    cases = {}
    for name, pairs in CASES.items():
        hypotheses, references = [list(side) for side in zip(*pairs)]
        bleu = BLEU(force=True).corpus_score(hypotheses, [references])
        cases[name] = {
            "hypotheses": hypotheses,
            "references": references,
            "tokens": [tokenizer(hypothesis.rstrip()).split() for hypothesis in hypotheses],
            "score": bleu.score,
            "precisions": bleu.precisions,
            "brevity_penalty": bleu.bp,
            "matches": bleu.counts,
            "totals": bleu.totals,
            "hypothesis_length": bleu.sys_len,
            "reference_length": bleu.ref_len,
        }
    path = pathlib.Path(__file__).parent / "bleu.json"
    path.write_text(json.dumps(cases, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
