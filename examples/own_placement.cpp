// SPDX-License-Identifier: BSD-3-Clause
//
// A placement of your own: write the formula, and it runs, is differentiated, predicted, measured and printed.
// HalfStep halves every branch, so the stream grows a quarter as fast as Pre-LN's; Echo has a second stream.
#include <cmath>
#include <iostream>
#include <normplace/normplace.hpp>

namespace np = normplace;

struct HalfStep {
    static constexpr auto name = "half-step";
    static constexpr auto formula = np::x + 0.5 * np::f(np::norm(np::x));
    static constexpr bool final_norm = true;
};

/// One that depends on the depth: a named scalar, and a gain on the weights that end a branch.
struct ShrinkingStep {
    static constexpr auto name = "shrinking-step";
    static constexpr auto scale =
        np::scalar("1/sqrt(2L)", [](const np::Depth& d) { return 1.0 / std::sqrt(2.0 * double(d.layers)); });
    static constexpr auto formula = np::x + scale * np::f(np::norm(np::x));
    static constexpr bool final_norm = true;
    static double gain(np::Role role, const np::Depth&) { return role == np::Role::linear2 ? 2.0 : 1.0; }
};

struct Echo {  // Post-LN, and beside it a stream that keeps half of what it had
    static constexpr auto name = "echo";
    static constexpr auto r = np::stream(1, "r");
    static constexpr auto formula = np::streams(np::norm(np::x + np::f(np::x)), 0.5 * r + np::f(np::x));
    static constexpr auto output = np::x + np::norm(r);
};

struct Zebra {  // every other layer with a learned factor for each channel, and a norm on queries and keys
    static constexpr auto name = "zebra";
    static constexpr auto odd = np::condition("l odd", [](const np::Depth& d) { return d.layer % 2 == 1; });
    static constexpr auto branch = np::f(np::norm(np::x));
    static constexpr auto formula = np::when(odd, np::x + np::gate("lambda", 0.5) * branch, np::x + branch);
    static constexpr bool final_norm = true;
    static np::SublayerNorms inside(const np::Depth& d) { return {.query = d.layer % 2 == 1, .key = d.layer % 2 == 1}; }
};

/// Predicts, measures, shows both and says whether they agree.
template <np::Placement P>
bool agrees(const np::ReferenceModel& model) {
    const np::Comparison comparison = np::compare(np::predict<P>(model), np::measure<P>(model, {.seeds = 16}));
    std::cout << comparison << '\n';
    return std::abs(comparison.matrices.geometric_mean - 1.0) < 0.05;
}

int main() {
    std::clog << np::blas_description() << '\n';
    const np::ReferenceModel model{.layers = 4, .width = 128, .heads = 4, .feed_forward = 512};
    const bool agree =
        agrees<HalfStep>(model) && agrees<ShrinkingStep>(model) && agrees<Echo>(model) && agrees<Zebra>(model);

    // The stream's second moment is 1 + growth: the first layer adds a quarter of what it adds in Pre-LN, where the
    // branch sees the same normalised input.
    const auto growth = [](const np::GradientReport& report) {
        return report.layers.front().attention.stream.second_moment.value - 1.0;
    };
    const double ratio = growth(np::predict<HalfStep>(model)) / growth(np::predict<np::PreLN>(model));
    std::cout << "half-step's first branch adds " << ratio << " of what pre-ln's adds\n";
    return agree && std::abs(ratio - 0.25) < 1e-3 ? 0 : 1;
}
