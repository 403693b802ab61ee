// SPDX-License-Identifier: BSD-3-Clause
//
// What a layer does besides its linear layers' products: norms and softmax, row by row, and causal attention.
#include <algorithm>
#include <memory>
#include <tuple>

#include <normplace/detail/attention_core.hpp>
#include <normplace/nn/norm.hpp>

#include "work.hpp"

namespace benchmarks {
namespace {

// The one place that knows the library's softmax: y = softmax of each row of x.
void softmax_rows(const float* x, float* y, std::size_t rows, std::size_t columns) {
    NORMPLACE_KERNEL(softmax_rows, x, y, rows, columns);
}

struct Attention {
    std::size_t batch, length, heads, head_width;
    std::vector<float> query, key, value, doutput;    // (B, S, H K), given
    std::vector<float> output, dquery, dkey, dvalue;  // (B, S, H K), made by the first call
    std::vector<float> log_total;                     // (B H, S), kept from forward to backward
};

// The one place that knows the library's attention between the projections: causal, forward, then backward.
void attention_core(Attention& a) {
    using namespace normplace::detail;
    const AttentionShape shape{a.batch, a.heads, a.length, a.length, a.head_width, true};
    const float *q = a.query.data(), *k = a.key.data(), *v = a.value.data();
    for (auto* computed : {&a.output, &a.dquery, &a.dkey, &a.dvalue}) computed->resize(a.query.size());
    a.log_total.resize(a.batch * a.heads * a.length);
    const SingleThreadedBlas single_threaded_blas;
    attention_forward<float>(shape, q, k, v, nullptr, a.output.data(), a.log_total.data());
    attention_backward<float>(shape, q, k, v, nullptr, a.output.data(), a.log_total.data(), a.doutput.data(),
                              a.dquery.data(), a.dkey.data(), a.dvalue.data());
}

struct Norm {
    explicit Norm(const Sizes<2>& sizes) : norm({.width = sizes[1]}) {
        for (auto* tensor : {&x, &dy}) {
            normplace::detail::reshape(*tensor, {1, sizes[0], sizes[1]});
            fill_random(tensor->data(), tensor->size());
        }
        normplace::zero_gradients(norm, gradients);
        norm.forward(x, y, cache);
    }
    normplace::LayerNorm<float> norm;
    normplace::LayerNorm<float>::Cache cache{};
    normplace::LayerNorm<float>::Gradients gradients{};
    normplace::Activations<float> x{}, y{}, dy{}, dx{};
};

}  // namespace

Work norm_forward(const Sizes<2>& sizes) {
    return [n = std::make_shared<Norm>(sizes)] { n->norm.forward(n->x, n->y, n->cache); };
}

Work norm_backward(const Sizes<2>& sizes) {
    return [n = std::make_shared<Norm>(sizes)] { n->norm.backward(n->dy, n->dx, n->cache, n->gradients); };
}

Work softmax(const Sizes<2>& sizes) {
    const auto x = std::make_shared<const std::vector<float>>(random_values(sizes[0] * sizes[1]));
    const auto y = std::make_shared<std::vector<float>>(x->size());
    return [=] { softmax_rows(x->data(), y->data(), sizes[0], sizes[1]); };
}

Work copy(const Sizes<2>& sizes) {
    const auto x = std::make_shared<const std::vector<float>>(random_values(sizes[0] * sizes[1]));
    const auto y = std::make_shared<std::vector<float>>(x->size());
    return [=] { std::copy(x->begin(), x->end(), y->begin()); };
}

Work causal_attention(const Sizes<4>& sizes) {
    const auto [batch, length, heads, head_width] = sizes;
    auto a = std::make_shared<Attention>();
    std::tie(a->batch, a->length, a->heads, a->head_width) = std::tie(batch, length, heads, head_width);
    const std::size_t count = batch * length * heads * head_width;
    for (auto* given : {&a->query, &a->key, &a->value, &a->doutput}) *given = random_values(count);
    return [a] { attention_core(*a); };
}

}  // namespace benchmarks
