// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <normplace/analysis/token_batch.hpp>
#include <string>

using namespace normplace;

TEST_CASE("seed s reads bytes from s B S on, and the next byte is the target") {
    const std::string text = "abcdefghijklm";
    const TokenBatch first = byte_batch(text, 2, 3, 0), second = byte_batch(text, 2, 3, 1);
    CHECK(first.tokens == std::vector<int>{'a', 'b', 'c', 'd', 'e', 'f'});
    CHECK(first.targets == std::vector<int>{'b', 'c', 'd', 'e', 'f', 'g'});
    CHECK(second.tokens.front() == 'g');
    CHECK(second.targets.back() == 'm');
    CHECK(text_length_needed(2, 3, 2) == 13);
}

TEST_CASE("bytes above 127 are tokens 128 to 255") {
    const TokenBatch batch = byte_batch("\xff\x80z", 1, 2, 0);
    CHECK(batch.tokens == std::vector<int>{255, 128});
}

TEST_CASE("a text that is too short is refused with the length it would need") {
    std::string sentence;
    try {
        byte_batch("abcdefghijkl", 2, 3, 1);
    } catch (const std::invalid_argument& error) {
        sentence = error.what();
    }
    CHECK(sentence.find("has 12 bytes") != std::string::npos);
    CHECK(sentence.find("need 13") != std::string::npos);
}
