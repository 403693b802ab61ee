// SPDX-License-Identifier: BSD-3-Clause
//
// Theorem 1 of Xiong et al. 2020 (arXiv:2002.04745) in numbers, in the paper's own model: the last layer's gradient
// of W_2 against the depth L. The bound with the proof's constants, the prediction, and the measurement.
#include <cmath>
#include <cstdio>
#include <iostream>
#include <normplace/analysis/paper.hpp>
#include <normplace/normplace.hpp>
#include <vector>

namespace np = normplace;

constexpr std::size_t width = 128, sequence = 16, seeds = 16;

struct Row {
    double layers, bound, predicted, measured, error;
};

template <np::Placement P>
Row row(std::size_t layers) {
    const auto model = np::ReferenceModel::paper(layers, width, sequence);
    const np::GradientReport predicted = np::predict<P>(model), measured = np::measure<P>(model, {.seeds = seeds});
    // G, the gradient of one token's loss at the readout's input: where Post-LN's stream ends. The loss is a mean over
    // tokens, hence the factor `sequence`.
    const double square = np::predict<np::PostLN>(model).layers.back().feed_forward.stream.gradient_second_moment.value;
    const double G = double(sequence) * std::sqrt(double(width) * square);
    const double bound =
        P::final_norm ? np::paper::theorem1_pre_ln(width, layers, G) : np::paper::theorem1_post_ln(width, G);
    const np::GradientNorm& last = measured.layers.back().w2;
    return {double(layers), bound, predicted.layers.back().w2.norm, last.norm, last.standard_error};
}

/// Prints the rows, and returns whether the measured gradient is below its bound and as the theorem's power of L.
template <np::Placement P>
bool holds(double power, double tolerance) {
    std::printf("%s\n%6s %12s %12s %20s\n", P::name, "L", "bound", "predicted", "measured");
    std::vector<Row> rows;
    bool below = true;
    for (const std::size_t layers : {2u, 4u, 8u, 16u, 24u}) {
        rows.push_back(row<P>(layers));
        const Row& r = rows.back();
        std::printf("%6.0f %12.0f %12.3f %12.3f +- %.3f\n", r.layers, r.bound, r.predicted, r.measured, r.error);
        below = below && r.measured < r.bound;
    }
    double x_mean = 0.0, square = 0.0, product = 0.0;
    for (const Row& r : rows) x_mean += std::log(r.layers) / double(rows.size());
    for (const Row& r : rows) {
        square += std::pow(std::log(r.layers) - x_mean, 2);
        product += (std::log(r.layers) - x_mean) * std::log(r.measured);
    }
    const double slope = product / square;
    std::printf("measured as L^%.3f, the theorem says L^%.1f\n\n", slope, power);
    return below && std::abs(slope - power) < tolerance;
}

int main() {
    std::clog << np::blas_description() << '\n';
    std::printf("The bounds hold with probability %.2f or more where hidden norms are (0.1, 0.125)-bounded\n\n",
                np::paper::theorem1_probability(0.1, 0.125));
    const bool post = holds<np::PostLN>(0.0, 0.05), pre = holds<np::PreLN>(-0.5, 0.08);
    return post && pre ? 0 : 1;
}
