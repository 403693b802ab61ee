// SPDX-License-Identifier: BSD-3-Clause
//
// One block, forward and backward: the sublayer is a feed-forward network, the placement says where its norm goes.
// Checked by moving x a little along a direction v: the loss must change by dx . v.
#include <cmath>
#include <iostream>
#include <normplace/nn/blas_description.hpp>
#include <normplace/nn/feed_forward.hpp>
#include <normplace/nn/residual_block.hpp>
#include <normplace/placement/catalogue.hpp>
#include <random>

namespace np = normplace;
using Tensor = np::Activations<double>;  // (B, S, D), an xt::xtensor<double, 3>

Tensor gaussian(np::RandomEngine& random) {
    std::normal_distribution<double> normal;
    Tensor tensor = Tensor::from_shape({2, 8, 64});
    for (double& entry : tensor) entry = normal(random);
    return tensor;
}

double dot(const Tensor& a, const Tensor& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a.data()[i] * b.data()[i];
    return sum;
}

template <np::Placement P>
bool run() {
    using Block = np::ResidualBlock<P, np::FeedForward<double>>;
    Block block({.width = 64, .feed_forward = 256}, {.layer = 3, .layers = 12});
    np::RandomEngine random(1);
    block.initialize(random, np::Initialization::xavier());

    const Tensor x = gaussian(random), dy = gaussian(random), v = gaussian(random);
    Tensor y, dx;
    typename Block::Cache cache;
    typename Block::Gradients gradients;
    np::zero_gradients(block, gradients);
    block.forward(x, y, cache);
    block.backward(dy, dx, cache, gradients);

    std::cout << P::name << ": " << np::to_string(P::formula) << '\n';
    np::for_each_parameter(
        [](const std::string& name, const auto&, const auto& gradient) {
            double square = 0.0;
            for (const double entry : gradient) square += entry * entry;
            std::cout << "  ||dLoss/d " << name << "|| = " << std::sqrt(square) << '\n';
        },
        block, gradients);

    const double step = 1e-5;  // Loss = dy . y
    const auto loss = [&](double along) {
        Tensor moved = x, output;
        for (std::size_t i = 0; i < x.size(); ++i) moved.data()[i] += along * v.data()[i];
        block.forward(moved, output, cache);
        return dot(dy, output);
    };
    const double difference = (loss(step) - loss(-step)) / (2.0 * step), backward = dot(dx, v);
    std::cout << "  dLoss along v: " << backward << " by backward, " << difference << " by differences\n";
    return std::abs(backward - difference) < 1e-6 * std::abs(backward);
}

int main() {
    std::clog << np::blas_description() << '\n';
    const bool pre = run<np::PreLN>(), post = run<np::PostLN>();
    return pre && post ? 0 : 1;
}
