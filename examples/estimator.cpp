// SPDX-License-Identifier: BSD-3-Clause
//
// The estimator alone: what will the gradients of a large model be, under each placement, before anything is built?
// This file needs the standard library and nothing else, neither xtensor nor a BLAS.
#include <cmath>
#include <cstdio>
#include <normplace/analysis.hpp>

namespace np = normplace;

int main() {
    np::ReferenceModel model;
    model.layers = 96;
    model.width = 12288;
    model.heads = 96;
    model.feed_forward = 4 * 12288;
    model.sequence = 2048;
    model.batch = 16;
    model.vocabulary = 50257;

    std::printf("%zu layers of width %zu\n", model.layers, model.width);
    std::printf("%-17s %-46s %9s %9s %9s\n", "placement", "formula", "W_2, 1st", "W_2, last", "x^2, last");
    for (const np::AnyPlacement* placement : np::all_placements()) {
        const np::GradientReport report = np::predict(*placement, model);
        const np::LayerReport &first = report.layers.front(), &last = report.layers.back();
        std::printf("%-17s %-46.46s", report.placement.c_str(), report.formula.c_str());
        for (const double value : {first.w2.norm, last.w2.norm, last.feed_forward.stream.second_moment.value})
            std::isfinite(value) ? std::printf(" %9.3g", value) : std::printf(" %9s", "overflow");
        std::printf("%s\n", report.warnings.empty() ? "" : "  *");
    }

    std::printf("* report.warnings says where the theory leaves its range\n");

    // Theorem 1 of Xiong et al. 2020: from 96 to 384 layers Pre-LN's last gradient halves, Post-LN's stays.
    const auto last_gradient = [&](const np::AnyPlacement& placement, std::size_t layers) {
        model.layers = layers;
        return np::predict(placement, model).layers.back().w2.norm;
    };
    const np::AnyPlacement &pre_ln = np::placement_named("pre-ln"), &post_ln = np::placement_named("post-ln");
    const double pre = last_gradient(pre_ln, 384) / last_gradient(pre_ln, 96),
                 post = last_gradient(post_ln, 384) / last_gradient(post_ln, 96);
    std::printf("from 96 to 384 layers the last W_2's gradient changes by %.3f (Pre-LN) and %.3f (Post-LN)\n", pre,
                post);
    return std::abs(pre - 0.5) < 0.02 && std::abs(post - 1.0) < 0.02 ? 0 : 1;
}
