// SPDX-License-Identifier: BSD-3-Clause
//
// What both translation units instantiate, so that the linker sees every function and constant twice.
#pragma once

#include <normplace/normplace.hpp>

#include <vector>

/// What differs between the units when something in a header is not `inline`: addresses of constants and functions.
using Addresses = std::vector<const void*>;

inline Addresses addresses() {
    using namespace normplace;
    return {&PreLN::formula, &DeepNorm::alpha, &relu, &gelu, &x, &in, reinterpret_cast<const void*>(&placement_names)};
}

/// |dx|^2 after one step through a layer of Pre-LN and of Post-LN, and the predicted W_2 norms, added up.
inline double run() {
    using namespace normplace;
    RandomEngine random(7);
    Activations<float> input({1, 2, 4}), y, dx;
    input.fill(0.5f);
    input(0, 0, 1) = -1.0f;
    double sum = 0.0;
    const auto add = [&](auto placement) {
        using Stack = Encoder<decltype(placement), float>;
        Stack encoder({.layers = 1, .width = 4, .heads = 2, .feed_forward = 8});
        typename Stack::Cache cache;
        typename Stack::Gradients gradients;
        encoder.initialize(random);
        zero_gradients(encoder, gradients);
        encoder.forward(input, y, cache);
        encoder.backward(y, dx, cache, gradients);
        for (const float d : dx) sum += static_cast<double>(d * d);
        sum += predict<decltype(placement)>(ReferenceModel{.layers = 2, .width = 64}).layers.back().w2.norm;
    };
    add(PreLN{});
    add(PostLN{});
    return sum;
}
