// SPDX-License-Identifier: BSD-3-Clause
//
// A project that uses everything: a Pre-LN and a Post-LN block run, differentiated and predicted. Exits with 1 when
// something is wrong.
#include <normplace/normplace.hpp>

#include <cmath>
#include <cstdio>

namespace np = normplace;

namespace {

/// |x| over all entries, as a root mean square.
double size(const np::Activations<float>& x) {
    double sum = 0.0;
    for (const float entry : x) sum += static_cast<double>(entry) * static_cast<double>(entry);
    return std::sqrt(sum / static_cast<double>(x.size()));
}

/// Runs a block of this placement on x, and returns y.
template <class Placement>
np::Activations<float> run(const np::Activations<float>& x, bool& right) {
    using Block = np::ResidualBlock<Placement, np::FeedForward<float>>;
    Block block({.width = 8, .feed_forward = 16}, {.layer = 1, .layers = 2});
    np::RandomEngine random(1);
    block.initialize(random);
    typename Block::Cache cache;
    typename Block::Gradients gradients;
    np::zero_gradients(block, gradients);
    np::Activations<float> y, dx;
    block.forward(x, y, cache);
    block.backward(y, dx, cache, gradients);
    right = right && size(dx) > 0.0 && std::isfinite(size(dx));
    return y;
}

}  // namespace

int main() {
    np::Activations<float> x({2, 3, 8});
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(3.0 * std::sin(static_cast<double>(i)));

    bool right = true;
    const double pre = size(run<np::PreLN>(x, right)), post = size(run<np::PostLN>(x, right));
    right = right && std::abs(post - 1.0) < 1e-3 && pre > 1.5;  // Post-LN's stream is normalised, Pre-LN's is not

    np::ReferenceModel model{.layers = 12};
    const double pre_gradient = np::predict<np::PreLN>(model).layers.back().w2.norm;
    const double post_gradient = np::predict<np::PostLN>(model).layers.back().w2.norm;
    right = right && pre_gradient > 0.0 && post_gradient > pre_gradient;

    std::printf("stream: Pre-LN %g, Post-LN %g; last gradient: Pre-LN %g, Post-LN %g: %s\n", pre, post, pre_gradient,
                post_gradient, right ? "right" : "WRONG");
    return right ? 0 : 1;
}
