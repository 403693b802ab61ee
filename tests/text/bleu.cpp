// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <normplace/text/bleu.hpp>
#include <string>
#include <vector>

using namespace normplace;
using Strings = std::vector<std::string>;

TEST_CASE("the score, its parts and the tokens are sacreBLEU's") {
    std::ifstream file(std::filesystem::path(NORMPLACE_GOLDEN_DIR) / "bleu.json");
    REQUIRE(file.good());
    const auto cases = nlohmann::json::parse(file);
    CHECK(cases.size() >= 12);
    for (const auto& item : cases.items()) {
        CAPTURE(item.key());
        const auto& expected = item.value();
        const auto hypotheses = expected.at("hypotheses").get<Strings>();
        const BleuScore bleu = corpus_bleu(hypotheses, expected.at("references").get<Strings>());
        // exp and log may differ in the last digit of a hundred
        CHECK(std::abs(bleu.score - expected.at("score").get<double>()) <= 1e-12);
        CHECK(std::abs(bleu.brevity_penalty - expected.at("brevity_penalty").get<double>()) <= 1e-15);
        for (std::size_t n = 0; n < 4; ++n) {
            CAPTURE(n);
            CHECK(bleu.precisions[n] == doctest::Approx(expected.at("precisions")[n].get<double>()).epsilon(1e-15));
            CHECK(bleu.matches[n] == expected.at("matches")[n]);
            CHECK(bleu.totals[n] == expected.at("totals")[n]);
        }
        CHECK(bleu.hypothesis_length == expected.at("hypothesis_length"));
        CHECK(bleu.reference_length == expected.at("reference_length"));
        for (std::size_t i = 0; i < hypotheses.size(); ++i)
            CHECK(tokenize_13a(hypotheses[i]) == expected.at("tokens")[i].get<Strings>());
    }
}

TEST_CASE("periods and commas stay in numbers, hyphens leave them") {
    CHECK(tokenize_13a("1,234.5 a.b 3.x 1990-95 A-4") ==
          Strings{"1,234.5", "a", ".", "b", "3", ".", "x", "1990", "-", "95", "A-4"});
}

TEST_CASE("bytes that are not UTF-8 are text") {
    CHECK(tokenize_13a("\xff\x80 \xc2") == Strings{"\xff\x80", "\xc2"});
    CHECK(tokenize_13a("a\xe2\x80") == Strings{"a\xe2\x80"});
}

TEST_CASE("no sentences and unequal numbers of them are refused") {
    CHECK_THROWS_WITH_AS(corpus_bleu({}, {}),
                         "corpus_bleu: 0 hypotheses and 0 references, expected as many of each and at least one",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(corpus_bleu({"a", "b"}, {"a"}),
                         "corpus_bleu: 2 hypotheses and 1 references, expected as many of each and at least one",
                         std::invalid_argument);
}
