// SPDX-License-Identifier: BSD-3-Clause
//
// What is measured: each function makes its data once and returns one iteration over it, whose memory is reused from
// call to call. All data are random and of order 1: none is denormal, and no iteration feeds on another's output.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <random>
#include <vector>

namespace benchmarks {

using Work = std::function<void()>;
template <std::size_t N>
using Sizes = std::array<std::size_t, N>;

/// A training step of one encoder layer: zero_gradients, forward, backward. Sizes are B, S, D, H, F.
Work pre_ln_step(const Sizes<5>& sizes);
Work post_ln_step(const Sizes<5>& sizes);
Work causal_pre_ln_step(const Sizes<5>& sizes);
/// G: the layer's matrix products alone, each one gemm call of its own shape.
Work layer_products(const Sizes<5>& sizes);

/// A whole training step of a Pre-LN byte language model: batch, forward, loss, backward, clipping, Adam. Sizes are B,
/// S, D, H, F, L.
Work training_step(const Sizes<6>& sizes);
/// What such a step needs at least: its readout with the loss, and L times the step of one layer, or that of the stack.
Work training_layers(const Sizes<6>& sizes);
Work training_stack(const Sizes<6>& sizes);

/// Rows, columns.
Work norm_forward(const Sizes<2>& sizes);
Work norm_backward(const Sizes<2>& sizes);
Work softmax(const Sizes<2>& sizes);
/// One tensor of that size copied to another: what memory allows any of these at most.
Work copy(const Sizes<2>& sizes);

/// Causal attention between the projections, forward and backward. B, S, H, K.
Work causal_attention(const Sizes<4>& sizes);

inline void fill_random(float* values, std::size_t count) {
    std::minstd_rand engine(static_cast<std::minstd_rand::result_type>(count));
    std::uniform_real_distribution<float> uniform(-1.7f, 1.7f);  // variance 1
    for (std::size_t i = 0; i < count; ++i) values[i] = uniform(engine);
}
inline std::vector<float> random_values(std::size_t count) {
    std::vector<float> values(count);
    fill_random(values.data(), count);
    return values;
}

}  // namespace benchmarks
