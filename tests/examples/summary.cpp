// SPDX-License-Identifier: BSD-3-Clause
//
// The few numbers into which examples/accuracy turns its errors.
#include <doctest/doctest.h>

#include <cmath>

#include "accuracy/laws.hpp"
#include "accuracy/summary.hpp"

namespace np = normplace;
using namespace accuracy;

namespace {

np::Compared value(const char* name, double predicted, double measured, double standard_error) {
    np::Compared compared;
    compared.name = name;
    compared.predicted = predicted;
    compared.measured = measured;
    compared.standard_error = standard_error;
    return compared;
}

const Group& group(const PlacementSummary& summary, Part part, Quantity quantity) {
    return summary.groups[static_cast<std::size_t>(part)][static_cast<std::size_t>(quantity)];
}

}  // namespace

TEST_CASE("a spread is made of values that occur") {
    std::vector<double> values;
    for (int i = 20; i > 0; --i) values.push_back(i);
    const Spread spread = spread_of(values);
    CHECK(spread.median == 10.0);
    CHECK(spread.percentile_95 == 19.0);
    CHECK(spread.worst == 20.0);
    CHECK(spread_of({3.0}).percentile_95 == 3.0);
    CHECK(std::isnan(spread_of({}).median));
    const Spread with_none = spread_of({np::not_available, 2.0, 1.0});
    CHECK(with_none.median == 2.0);
    CHECK(std::isnan(with_none.worst));
}

TEST_CASE("an error is relative, but that of a correlation, and two standard errors excuse it") {
    const Error norm = error_of(Quantity::wq, value("", 2.2, 2.0, 0.04));
    CHECK(norm.size == doctest::Approx(0.1));
    CHECK(norm.standard_error == doctest::Approx(0.02));
    CHECK(norm.beyond_noise() == doctest::Approx(0.06));
    const Error correlation = error_of(Quantity::token_correlation, value("", 0.50, 0.52, 0.03));
    CHECK(correlation.size == doctest::Approx(0.02));
    CHECK(correlation.beyond_noise() == 0.0);
    CHECK(error_of(Quantity::wk, value("", 0.0, 0.0, 0.0)).size == 0.0);
}

TEST_CASE("names") {
    CHECK(quantity_of("layers.11.attention.key.weight") == Quantity::wk);
    CHECK(quantity_of("layers.0.feed_forward.linear2.weight") == Quantity::w2);
    CHECK(quantity_of("layers.0.feed_forward.norm_out.gain") == Quantity::gain);
    CHECK(quantity_of("final_norm.gain") == Quantity::gain);
    CHECK(quantity_of("layers.2.attention.stream.token_correlation") == Quantity::token_correlation);
    CHECK_FALSE(quantity_of("input.second_moment"));
    CHECK_FALSE(quantity_of("layers.0.attention.query.bias"));
    CHECK_FALSE(quantity_of("readout.weight"));
}

TEST_CASE("laws") {
    CHECK(kedia_law("pre-ln", 3, 12) == doctest::Approx(2.0));
    CHECK(kedia_law("post-ln", 10, 12) == doctest::Approx(1.0 / (1.024 * 1.024)));
    CHECK(kedia_law("post-ln", 12, 12) == 1.0);
    CHECK(std::isnan(kedia_law("peri-ln", 1, 2)));
    CHECK(xiong_law("post-ln", 10, 12) == doctest::Approx(2.0 / 3.0));
    CHECK(xiong_law("pre-ln", 1, 12) == 1.0);
    CHECK(std::isnan(xiong_law("deep-norm", 1, 2)));
}

TEST_CASE("groups, what has no prediction, laws, and bounds") {
    Comparison wide;
    wide.row = {.number = 1, .held_out = false, .seeds = 2, .model = {.layers = 2, .width = 256}};
    wide.placement = "pre-ln";
    wide.warnings = {"the scores are too large"};
    wide.numbers = {value("layers.0.attention.query.weight", np::not_available, 1.0, 0.1),
                    value("layers.1.attention.query.weight", 1.0, 1.0, 0.1),
                    value("layers.0.attention.key.weight", 1e-12, 1e-7, 1e-9),  // as the rounding has it
                    value("layers.1.attention.key.weight", 1e-3, 1e-7, 1e-9),
                    value("layers.0.feed_forward.linear2.weight", 3.0, 3.0, 0.01),
                    value("layers.1.feed_forward.linear2.weight", 2.2, 2.0, 0.01)};
    Comparison narrow = wide;
    narrow.row.model.width = 128;
    narrow.row.held_out = true;
    Comparison other = wide;
    other.placement = "post-ln";
    const std::vector<PlacementSummary> summaries = summarise({"pre-ln"}, {other, wide, narrow});
    REQUIRE(summaries.size() == 1);
    const PlacementSummary& summary = summaries.front();
    CHECK(group(summary, Part::tuning, Quantity::wq).count == 1);
    CHECK(group(summary, Part::tuning, Quantity::wq).missing == 1);
    CHECK(group(summary, Part::held_out, Quantity::wq).count == 0);
    CHECK(group(summary, Part::tuning, Quantity::wk).count == 1);
    CHECK(group(summary, Part::tuning, Quantity::wk).rounded == 1);
    CHECK(group(summary, Part::tuning, Quantity::wk).error.worst == doctest::Approx(9999.0));
    CHECK(group(summary, Part::tuning, Quantity::w2).error.worst == doctest::Approx(0.1));
    CHECK(group(summary, Part::narrow_held_out, Quantity::w2).beyond_noise.worst == doctest::Approx(0.09));
    CHECK(summary.rows_with_warnings == 2);
    CHECK(summary.warning == "the scores are too large");

    // W_2 of layer 1 is 1.5 times that of layer 2: 1.36 predicted, 1 by the one law and sqrt(2) by the other.
    const LawGroup& law = summary.laws[0][0];
    CHECK(law.predicted.worst == doctest::Approx(1.0 - 1.0 / 1.1));
    CHECK(law.xiong.worst == doctest::Approx(1.0 - 1.0 / 1.5));
    CHECK(law.kedia.worst == doctest::Approx(1.0 - std::sqrt(2.0) / 1.5));

    // A narrow model may be off by 12 %, another by 6 %.
    const std::vector<std::string> sentences = exceeded(summaries);
    REQUIRE(sentences.size() == 4);
    CHECK(sentences[0].starts_with("pre-ln, W_k, tuning: median "));
    CHECK(
        sentences[1].starts_with("pre-ln, W_2, tuning: 95th percentile 9.00 % instead of 3.00 %, worst 9.00 % instead "
                                 "of 6.00 % (W_2 of layer 2, predicted 2.20, measured 2.00 +- 0.0100, in row 1: L2 "));
    CHECK(sentences[3].starts_with("pre-ln, W_2, held out, narrow: 95th percentile 9.00 % instead of 6.00 % (W_2 of"));
}
