// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <limits>
#include <normplace/analysis/reference_model.hpp>
#include <string>

using namespace normplace;

namespace {
std::string refusal(const ReferenceModel& model) {
    try {
        model.check();
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "";
}
}  // namespace

TEST_CASE("the default model and the paper's are sound") {
    CHECK(refusal(ReferenceModel{}) == "");
    const ReferenceModel paper = ReferenceModel::paper(6, 128, 16);
    CHECK(refusal(paper) == "");
    CHECK(paper.heads == 1);
    CHECK(paper.feed_forward == 128);
    CHECK(paper.output_projection == false);
    CHECK(paper.initialization.variance(Role::query, 128, 128, Depth{}) == 0.0);
}

TEST_CASE("every size of 0 is refused by name") {
    const auto zeroed = [](std::size_t ReferenceModel::*size) {
        ReferenceModel model;
        model.*size = 0;
        return refusal(model);
    };
    CHECK(zeroed(&ReferenceModel::layers) == "ReferenceModel: layers is 0, expected at least 1");
    CHECK(zeroed(&ReferenceModel::width) == "ReferenceModel: width is 0, expected at least 1");
    CHECK(zeroed(&ReferenceModel::heads) == "ReferenceModel: heads is 0, expected at least 1");
    CHECK(zeroed(&ReferenceModel::feed_forward) == "ReferenceModel: feed_forward is 0, expected at least 1");
    CHECK(zeroed(&ReferenceModel::sequence) == "ReferenceModel: sequence is 0, expected at least 1");
    CHECK(zeroed(&ReferenceModel::batch) == "ReferenceModel: batch is 0, expected at least 1");
    CHECK(zeroed(&ReferenceModel::vocabulary) == "ReferenceModel: vocabulary is 0, expected at least 1");
}

TEST_CASE("heads that do not divide the width, and an epsilon that is not positive, are refused with their values") {
    ReferenceModel model;
    model.width = 30;
    CHECK(refusal(model) == "ReferenceModel: width 30 is not divisible by 4 heads");
    model.width = 32;
    model.epsilon = 0.0;
    CHECK(refusal(model).find("epsilon 0.0") != std::string::npos);
    model.epsilon = std::numeric_limits<double>::quiet_NaN();
    CHECK(refusal(model).find("epsilon") != std::string::npos);
}
