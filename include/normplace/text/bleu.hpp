// SPDX-License-Identifier: BSD-3-Clause
//
// The BLEU of a corpus (Papineni et al. 2002) as sacreBLEU counts it by default (Post 2018, arXiv:1804.08771): one
// reference, cased, tokens as in mteval-v13a, n-grams up to 4, zero counts smoothed exponentially. Hypotheses and
// references are plain, detokenized text.
//
//     BLEU = BP exp(1/4 sum_n log p_n),   BP = min(1, exp(1 - reference length / hypothesis length)),
//
// p_n in percent: hypothesis n-grams that are in the sentence's reference (each as often as it is there) over all
// hypothesis n-grams. The k-th order without a match counts as 1 / 2^k matches.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace normplace {

struct BleuScore {
    double score = 0.0;                                       ///< 0 to 100
    std::array<double, 4> precisions{};                       ///< p_1 ... p_4, percent, smoothed
    double brevity_penalty = 0.0;                             ///< BP
    std::array<std::size_t, 4> matches{}, totals{};           ///< of n-grams
    std::size_t hypothesis_length = 0, reference_length = 0;  ///< tokens
};

namespace detail {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

inline void replace_all(std::string& text, std::string_view from, std::string_view to) {
    for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
}

/// The length of the white space (Unicode's, and the separators 0x1c to 0x1f) that `text` has at `at`; 0 when it is
/// none.
inline std::size_t space_length(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) {
        return at + i < text.size() ? static_cast<unsigned>(static_cast<unsigned char>(text[at + i])) : 0u;
    };
    const unsigned first = byte(0), second = byte(1), third = byte(2);
    if (first == ' ' || (first >= 0x09 && first <= 0x0d) || (first >= 0x1c && first <= 0x1f)) return 1;
    if (first == 0xc2) return second == 0x85 || second == 0xa0 ? 2 : 0;  // U+0085, U+00A0
    if (first == 0xe1) return second == 0x9a && third == 0x80 ? 3 : 0;   // U+1680
    if (first == 0xe3) return second == 0x80 && third == 0x80 ? 3 : 0;   // U+3000
    if (first != 0xe2) return 0;
    if (second == 0x80)
        return (third >= 0x80 && third <= 0x8a) || third == 0xa8 || third == 0xa9 || third == 0xaf ? 3 : 0;
    return second == 0x81 && third == 0x9f ? 3 : 0;  // U+205F
}

inline std::vector<std::string> split_at_space(std::string_view text) {
    std::vector<std::string> words;
    bool in_word = false;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t space = space_length(text, at);
        if (space == 0) {
            if (!in_word) words.emplace_back();
            words.back() += text[at];
        }
        in_word = space == 0;
        at += std::max<std::size_t>(space, 1);
    }
    return words;
}

/// ASCII's symbols except ' , - . which depend on what is beside them.
inline bool is_symbol(char c) {
    return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= '!' && c <= '&') || (c >= '(' && c <= '+') ||
           (c >= ':' && c <= '@') || c == '/';
}

}  // namespace detail

/// The tokens of a sentence after mteval-v13a: entities are resolved, symbols stand alone, a period and a comma do
/// unless digits are on both sides, and a hyphen does after a digit. Other scripts' punctuation stays in its word.
inline std::vector<std::string> tokenize_13a(std::string_view sentence) {
    // Space at the end goes first: a line end there would join with a hyphen before it.
    for (std::size_t length = 1; length <= std::min<std::size_t>(3, sentence.size());)
        if (detail::space_length(sentence, sentence.size() - length) == length) {
            sentence.remove_suffix(length);
            length = 1;
        } else {
            ++length;
        }
    std::string text(sentence);
    using detail::replace_all;
    for (const auto& [from, to] : {std::array<const char*, 2>{"<skipped>", ""},
                                   {"-\n", ""},
                                   {"&quot;", "\""},
                                   {"&amp;", "&"},
                                   {"&lt;", "<"},
                                   {"&gt;", ">"}})
        replace_all(text, from, to);

    std::string spaced = " ";
    for (const char c : text)
        if (detail::is_symbol(c)) spaced += {' ', c, ' '};
        else spaced += c;
    spaced += ' ';

    // The rules for period, comma and hyphen read pairs of characters that do not overlap, each rule what the one
    // before it wrote: "a.,b" is not what a look at both neighbours would give.
    const auto is_point = [](char c) { return c == '.' || c == ','; };
    const auto pass = [](const std::string& from, auto&& matches, auto&& write) {
        std::string to;
        for (std::size_t i = 0; i < from.size(); ++i)
            if (i + 1 < from.size() && matches(from[i], from[i + 1])) {
                write(to, from[i], from[i + 1]);
                ++i;
            } else to += from[i];
        return to;
    };
    spaced = pass(
        spaced, [&](char a, char b) { return !detail::is_digit(a) && is_point(b); },
        [](std::string& to, char a, char b) {
            to += {a, ' ', b, ' '};
        });
    spaced = pass(
        spaced, [&](char a, char b) { return is_point(a) && !detail::is_digit(b); },
        [](std::string& to, char a, char b) {
            to += {' ', a, ' ', b};
        });
    spaced = pass(
        spaced, [](char a, char b) { return detail::is_digit(a) && b == '-'; },
        [](std::string& to, char a, char b) {
            to += {a, ' ', b, ' '};
        });
    return detail::split_at_space(spaced);
}

namespace detail {

/// n-grams of one sentence and how often each is there; an id is a token's number in the pair of sentences, from 1, and
/// 0 fills up short n-grams.
using NGramCounts = std::map<std::array<std::uint32_t, 4>, std::size_t>;

inline NGramCounts count_n_grams(const std::vector<std::string>& tokens, std::map<std::string, std::uint32_t>& ids) {
    std::vector<std::uint32_t> sentence;
    for (const std::string& token : tokens)
        sentence.push_back(ids.try_emplace(token, static_cast<std::uint32_t>(ids.size() + 1)).first->second);
    NGramCounts counts;
    for (std::size_t i = 0; i < sentence.size(); ++i) {
        std::array<std::uint32_t, 4> n_gram{};
        for (std::size_t n = 0; n < 4 && i + n < sentence.size(); ++n) {
            n_gram[n] = sentence[i + n];
            ++counts[n_gram];
        }
    }
    return counts;
}

}  // namespace detail

/// @throws std::invalid_argument when there are no sentences, or not as many hypotheses as references
inline BleuScore corpus_bleu(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references) {
    if (hypotheses.size() != references.size() || hypotheses.empty())
        throw std::invalid_argument("corpus_bleu: " + std::to_string(hypotheses.size()) + " hypotheses and " +
                                    std::to_string(references.size()) +
                                    " references, expected as many of each and at least one");
    BleuScore bleu;
    for (std::size_t i = 0; i < hypotheses.size(); ++i) {
        const std::vector<std::string> hypothesis = tokenize_13a(hypotheses[i]),
                                       reference = tokenize_13a(references[i]);
        std::map<std::string, std::uint32_t> ids;
        const detail::NGramCounts ours = detail::count_n_grams(hypothesis, ids);
        const detail::NGramCounts theirs = detail::count_n_grams(reference, ids);
        for (const auto& [n_gram, count] : ours) {
            const std::size_t order = 3 - static_cast<std::size_t>(std::count(n_gram.begin(), n_gram.end(), 0u));
            const auto found = theirs.find(n_gram);
            bleu.totals[order] += count;
            if (found != theirs.end()) bleu.matches[order] += std::min(count, found->second);
        }
        bleu.hypothesis_length += hypothesis.size();
        bleu.reference_length += reference.size();
    }
    const double ratio = static_cast<double>(bleu.reference_length) /
                         static_cast<double>(std::max<std::size_t>(bleu.hypothesis_length, 1));
    bleu.brevity_penalty = bleu.hypothesis_length >= bleu.reference_length ? 1.0
                           : bleu.hypothesis_length == 0                   ? 0.0
                                                                           : std::exp(1.0 - ratio);
    if (bleu.matches[0] == 0) return bleu;  // nothing to smooth: the score is 0

    double smoothing = 1.0, log_sum = 0.0;
    for (std::size_t n = 0; n < 4 && bleu.totals[n] > 0; ++n) {
        if (bleu.matches[n] == 0) smoothing *= 2.0;
        const double matches = bleu.matches[n] ? static_cast<double>(bleu.matches[n]) : 1.0 / smoothing;
        bleu.precisions[n] = 100.0 * matches / static_cast<double>(bleu.totals[n]);
        log_sum += std::log(bleu.precisions[n]);
    }
    // A corpus without any 4-gram has no BLEU; it counts as 0.
    if (bleu.totals[3] > 0) bleu.score = bleu.brevity_penalty * std::exp(log_sum / 4.0);
    return bleu;
}

}  // namespace normplace
