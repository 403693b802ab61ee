// SPDX-License-Identifier: BSD-3-Clause
//
// A text of bytes that repeat and depend on each other as those of a language, for tests that cannot read a real one.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>

#include <normplace/detail/random.hpp>

/// Words drawn with frequencies 1/rank, between spaces: bytes that repeat and depend on each other as those of a
/// language.
inline std::string artificial_text(std::size_t length) {
    normplace::RandomEngine random(7);
    std::string words[200], text;
    for (std::string& word : words)
        for (std::size_t left = 1 + random() % 8; left > 0; --left)
            word += static_cast<char>('a' + random() % 26 * (random() % 26) / 26);
    while (text.size() < length) {
        const double rank = std::exp(std::log(200.0) * static_cast<double>(random() >> 11) * 0x1p-53);
        text += words[static_cast<std::size_t>(rank) - 1] + (random() % 12 == 0 ? ".\n" : " ");
    }
    return text.substr(0, length);
}
