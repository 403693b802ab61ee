// SPDX-License-Identifier: BSD-3-Clause
//
// The training step of an encoder layer, and its matrix products alone, which bound how fast the step can be.
#include <algorithm>
#include <memory>

#include <normplace/detail/blas.hpp>
#include <normplace/nn/encoder.hpp>
#include <normplace/placement/catalogue.hpp>

#include "work.hpp"

namespace benchmarks {
namespace {

template <class P>
Work layer_step(const Sizes<5>& sizes, bool causal = false) {
    using Layer = normplace::EncoderLayer<P, float>;
    struct State {
        Layer layer;
        typename Layer::Cache cache{};
        typename Layer::Gradients gradients{};
        normplace::Activations<float> x{}, y{}, dy{}, dx{};
    };
    const auto [batch, length, width, heads, feed_forward] = sizes;
    auto state = std::make_shared<State>(
        State{Layer({.layers = 1, .width = width, .heads = heads, .feed_forward = feed_forward, .causal = causal})});
    normplace::RandomEngine random(1);
    state->layer.initialize(random);
    for (auto* tensor : {&state->x, &state->dy}) {
        normplace::detail::reshape(*tensor, {batch, length, width});
        fill_random(tensor->data(), tensor->size());
    }
    return [state] {
        normplace::zero_gradients(state->layer, state->gradients);
        state->layer.forward(state->x, state->y, state->cache);
        state->layer.backward(state->dy, state->dx, state->cache, state->gradients);
    };
}

using normplace::detail::gemm;
using normplace::detail::Transposed;

/// Inputs are never written, so that no number grows from iteration to iteration; all outputs share one buffer, which
/// is the fastest that they could do.
class Products {
public:
    explicit Products(const Sizes<5>& sizes) : sizes_(sizes) {
        const auto [batch, length, d, heads, f] = sizes;
        input = random_values(batch * length * std::max(d, f));
        gradient = random_values(batch * length * std::max(d, f));
        weights = random_values(4 * d * d + 2 * f * d);
        attention_weights = random_values(length * length);
        output.resize(std::max({input.size(), d * f, d * d}));
        scores.resize(length * length);
    }

    void run() {
        const auto [batch, length, d, heads, f] = sizes_;
        const float* w = weights.data();
        for (int projection = 0; projection < 4; ++projection) w = linear(batch * length, d, d, w);
        w = linear(batch * length, d, f, w);
        linear(batch * length, f, d, w);
        for (std::size_t head = 0; head < batch * heads; ++head)
            attend(length, d, d / heads, head / heads * length * d + head % heads * (d / heads));
    }

private:
    /// y = x W^T, dW = dy^T x, dx = dy W; returns where the next W is.
    const float* linear(std::size_t tokens, std::size_t in, std::size_t out, const float* w) {
        const float *x = input.data(), *dy = gradient.data();
        gemm(Transposed::no, Transposed::yes, tokens, out, in, 1.0f, x, in, w, in, 0.0f, output.data(), out);
        gemm(Transposed::yes, Transposed::no, out, in, tokens, 1.0f, dy, out, x, in, 0.0f, output.data(), in);
        gemm(Transposed::no, Transposed::no, tokens, in, out, 1.0f, dy, out, w, in, 0.0f, output.data(), in);
        return w + in * out;
    }

    /// QK^T, PV, then dV = P^T dO, dP = dO V^T, dQ = dS K, dK = dS^T Q; D is the leading dimension.
    void attend(std::size_t length, std::size_t d, std::size_t width, std::size_t offset) {
        const float *rows = input.data() + offset, *dout = gradient.data() + offset, *p = attention_weights.data();
        const auto outer = [&](const float* a) {
            gemm(Transposed::no, Transposed::yes, length, length, width, 1.0f, a, d, rows, d, 0.0f, scores.data(),
                 length);
        };
        const auto inner = [&](Transposed transposed, const float* b) {
            gemm(transposed, Transposed::no, length, width, length, 1.0f, p, length, b, d, 0.0f, output.data() + offset,
                 d);
        };
        outer(rows);
        inner(Transposed::no, rows);
        inner(Transposed::yes, dout);
        outer(dout);
        inner(Transposed::no, rows);
        inner(Transposed::yes, rows);
    }

    Sizes<5> sizes_;
    std::vector<float> input, gradient, weights, attention_weights, output, scores;
};

}  // namespace

Work pre_ln_step(const Sizes<5>& sizes) { return layer_step<normplace::PreLN>(sizes); }
Work post_ln_step(const Sizes<5>& sizes) { return layer_step<normplace::PostLN>(sizes); }
Work causal_pre_ln_step(const Sizes<5>& sizes) { return layer_step<normplace::PreLN>(sizes, true); }

Work layer_products(const Sizes<5>& sizes) {
    return [products = std::make_shared<Products>(sizes)] { products->run(); };
}

}  // namespace benchmarks
