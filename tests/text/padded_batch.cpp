// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <normplace/text/padded_batch.hpp>
#include <vector>

using namespace normplace;
using Ids = std::vector<int>;

namespace {
const EncodedCorpus corpus{{{5, 6, 7}, {8}, {}}, {{11}, {12, 13, 14}, {15, 16}}};
}

TEST_CASE("rows are filled up, the decoder reads from begin, and its targets go to end") {
    const TranslationBatch batch = translation_batch(corpus, {1, 0}, {.padding = 9, .begin = 2, .end = 3});
    CHECK(batch.source.rows == 2);
    CHECK(batch.source.columns == 4);
    CHECK(batch.source.ids == Ids{8, 3, 9, 9, 5, 6, 7, 3});
    CHECK(batch.source_lengths == std::vector<std::size_t>{2, 4});
    CHECK(batch.decoder_input.rows == 2);
    CHECK(batch.decoder_input.columns == 4);
    CHECK(batch.decoder_input.ids == Ids{2, 12, 13, 14, 2, 11, 9, 9});
    CHECK(batch.decoder_target.columns == 4);
    CHECK(batch.decoder_target.ids == Ids{12, 13, 14, 3, 11, 3, no_target, no_target});
    CHECK(batch.target_tokens == 6);
    CHECK(batch.source(1, 2) == 7);
}

TEST_CASE("an empty sentence is its end") {
    const TranslationBatch batch = translation_batch(corpus, {2});
    CHECK(batch.source.ids == Ids{3});
    CHECK(batch.source_lengths == std::vector<std::size_t>{1});
    CHECK(batch.decoder_input.ids == Ids{2, 15, 16});
    CHECK(translation_batch({{{4}}, {{}}}, {0}).decoder_target.ids == Ids{3});
    CHECK(translation_batch(corpus, {}).source.ids.empty());
}

TEST_CASE("sources alone are padded as in a batch") {
    CHECK(pad_sources(corpus.source).ids == Ids{5, 6, 7, 3, 8, 3, 0, 0, 3, 0, 0, 0});
    CHECK(pad_sources({}).rows == 0);
}

TEST_CASE("lengths are those of the batch") {
    const std::vector<ExampleLength> lengths = example_lengths(corpus);
    for (std::size_t i = 0; i < corpus.size(); ++i) {
        const TranslationBatch batch = translation_batch(corpus, {i});
        CHECK(lengths[i].source == batch.source.columns);
        CHECK(lengths[i].target == batch.decoder_target.columns);
    }
}

TEST_CASE("pairs that are too long are dropped and counted") {
    EncodedCorpus kept = corpus;
    CHECK(drop_longer(kept, 4) == 0);
    CHECK(kept.source == corpus.source);
    CHECK(kept.target == corpus.target);
    CHECK(drop_longer(kept, 3) == 2);  // one for its source, one for its target
    CHECK(kept.source == std::vector<Ids>{{}});
    CHECK(kept.target == std::vector<Ids>{{15, 16}});
}

TEST_CASE("what is no corpus is refused") {
    CHECK_THROWS_WITH_AS(translation_batch(corpus, {3}), "translation_batch: example 3 is not in a corpus of 3",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(example_lengths({{{1}}, {}}),
                         "example_lengths: 1 sources and 0 targets, expected as many of each", std::invalid_argument);
    CHECK_THROWS_WITH_AS(translation_batch({{{1}}, {{2, -1}}}, {0}), "translation_batch: id -1, expected 0 or more",
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(pad_sources({{-7}}), "pad_sources: id -7, expected 0 or more", std::invalid_argument);
    CHECK_THROWS_WITH_AS(pad_sources({{1}}, {.padding = -1}), "pad_sources: id -1, expected 0 or more",
                         std::invalid_argument);
    CHECK_THROWS_AS(translation_batch(corpus, {0}, {.end = -3}), std::invalid_argument);
}
