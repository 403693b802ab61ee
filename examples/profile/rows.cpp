// SPDX-License-Identifier: BSD-3-Clause
#include "rows.hpp"

namespace profile {

namespace np = normplace;

namespace {

/// The entry that `member` picks out of a report.
template <class Member>
Row row(const char* name, const PlacementResult& result, Member member) {
    Row row{name, np::value_of(member(result.predicted)), np::not_available, np::not_available};
    if constexpr (requires { member(result.predicted).validity; }) row.gradient = &member(result.predicted);
    if (!result.measured) return row;
    row.measured = np::value_of(member(*result.measured));
    if (result.measured->seeds > 1) row.standard_error = member(*result.measured).standard_error;
    return row;
}

}  // namespace

std::vector<Row> layer_rows(const PlacementResult& result, std::size_t layer) {
    const auto weight = [&](const char* name, np::GradientNorm np::LayerReport::*w) {
        return row(
            name, result, [&](const np::GradientReport& report) -> auto& { return report.layers[layer].*w; });
    };
    const auto moment = [&](const char* name, np::Moment np::StreamMoments::*m) {
        return row(
            name, result, [&](const np::GradientReport& report) -> auto& {
                return report.layers[layer].feed_forward.stream.*m;
            });
    };
    return {weight("wq", &np::LayerReport::wq),
            weight("wk", &np::LayerReport::wk),
            weight("wv", &np::LayerReport::wv),
            weight("wo", &np::LayerReport::wo),
            weight("w1", &np::LayerReport::w1),
            weight("w2", &np::LayerReport::w2),
            moment("second_moment", &np::StreamMoments::second_moment),
            moment("token_correlation", &np::StreamMoments::token_correlation)};
}

std::vector<Row> model_rows(const PlacementResult& result) {
    return {row(
                "readout", result, [](const np::GradientReport& report) -> auto& { return report.readout; }),
            row(
                "loss", result, [](const np::GradientReport& report) -> auto& { return report.loss; })};
}

}  // namespace profile
