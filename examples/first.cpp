// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <iostream>
#include <normplace/normplace.hpp>

namespace np = normplace;

struct HalfStep {  // a placement of your own is its formula
    static constexpr auto name = "half-step";
    static constexpr auto formula = np::x + 0.5 * np::f(np::norm(np::x));
    static constexpr bool final_norm = true;
};

int main() {
    std::clog << np::blas_description() << '\n';
    const np::ReferenceModel model{.layers = 3, .width = 128, .heads = 4, .feed_forward = 512};
    const auto comparison = np::compare(np::predict<HalfStep>(model), np::measure<HalfStep>(model, {.seeds = 16}));
    std::cout << comparison;
    return std::abs(comparison.matrices.geometric_mean - 1.0) < 0.05 ? 0 : 1;
}
